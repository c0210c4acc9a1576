package live

import (
	"bytes"
	"context"
	"fmt"
	"sort"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// RouterAdminPort and RouterPort are the ports of every router pod; see the fleet's pod template.
const (
	RouterPort      = 30000
	RouterAdminPort = 9400
)

// Metrics is one scrape of one pod.
type Metrics map[string]*dto.MetricFamily

// RouterMetrics scrapes the admin port of a router pod.
func (c *Cluster) RouterMetrics(ctx context.Context, namespace, pod string) (Metrics, error) {
	return c.Scrape(ctx, namespace, pod, RouterAdminPort)
}

// Scrape reads /metrics of a port of a pod.
func (c *Cluster) Scrape(ctx context.Context, namespace, pod string, port int) (Metrics, error) {
	page, err := c.PodGet(ctx, namespace, pod, port, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("parse metrics of pod %s/%s: %w", namespace, pod, err)
	}
	return families, nil
}

// Sum adds up the counters or gauges of a family whose labels include want. ok is false if there is
// no such series, which is not the same as a sum of zero.
func (m Metrics) Sum(family string, want map[string]string) (sum float64, ok bool) {
	for _, metric := range m.series(family) {
		if !hasLabels(metric, want) {
			continue
		}
		ok = true
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum, ok
}

// By adds up the counters or gauges of a family for each value of one label.
func (m Metrics) By(family, label string) map[string]float64 {
	sums := map[string]float64{}
	for _, metric := range m.series(family) {
		sums[labelValue(metric, label)] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sums
}

// Labels lists the values a label has in a family, sorted.
func (m Metrics) Labels(family, label string) []string {
	sums := m.By(family, label)
	values := make([]string, 0, len(sums))
	for value := range sums {
		values = append(values, value)
	}
	sort.Strings(values)
	return values
}

func (m Metrics) series(family string) []*dto.Metric {
	if f := m[family]; f != nil {
		return f.GetMetric()
	}
	return nil
}

func hasLabels(metric *dto.Metric, want map[string]string) bool {
	for name, value := range want {
		if labelValue(metric, name) != value {
			return false
		}
	}
	return true
}

func labelValue(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
