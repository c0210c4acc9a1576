package app

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/models"
	"github.com/routerfleet/routerfleet/router/workers"
)

// readModels gives the models to serve: those of the file, or the one that is named; nil for whatever engines report. The
// file is read once: a model that appears, or changes its workers, changes what indexes and keys are about, and a router
// that starts anew gets all of that right.
func (o Options) readModels() (*models.Set, error) {
	var set *models.Set
	var err error
	switch {
	case o.ModelsFile != "":
		if set, err = models.Open(o.ModelsFile); err != nil {
			return nil, fmt.Errorf("--models-file: %w", err)
		}
	case o.ModelID != "":
		if set, err = models.One(o.ModelID); err != nil {
			return nil, fmt.Errorf("--model-id: %w", err)
		}
	}
	return set, nil
}

// unselected are the workers that serve nothing because no model's selector takes them.
func unselected(s *workers.Snapshot) []kvevents.Problem {
	if s.Counts().Unselected == 0 {
		return nil
	}
	var list []kvevents.Problem
	for _, l := range s.Workers() {
		if l.State == workers.StateUnselected {
			list = append(list, kvevents.Problem{Code: string(status.CodeWorkersUnselected), Worker: l.Worker.Name(), Message: l.Reason})
		}
	}
	return list
}

// staticWorkers reads --worker and --worker-labels, and reports everything that is wrong with them at once.
func (o Options) staticWorkers() ([]workers.StaticWorker, error) {
	var faults []error
	var list []workers.StaticWorker
	at := map[workers.ID]int{}
	for _, arg := range o.Worker {
		w, err := workers.ParseStatic(arg)
		if err != nil {
			faults = append(faults, fmt.Errorf("--%w", err))
			continue
		}
		at[w.ID] = len(list)
		list = append(list, w)
	}
	for _, arg := range o.WorkerLabels {
		id, text, _ := strings.Cut(arg, "=")
		i, known := at[workers.ID(id)]
		set, err := labels.ConvertSelectorToLabelsMap(text)
		switch {
		case !known:
			faults = append(faults, fmt.Errorf("--worker-labels %q: no --worker has the id %q", arg, id))
		case err != nil:
			faults = append(faults, fmt.Errorf("--worker-labels %q: %w", arg, err))
		case len(set) == 0:
			faults = append(faults, fmt.Errorf("--worker-labels %q: give it as ID=key=value,key=value", arg))
		case list[i].Labels != nil:
			faults = append(faults, fmt.Errorf("--worker-labels %q: %q has labels already", arg, id))
		default:
			list[i].Labels = set
		}
	}
	return list, errors.Join(faults...)
}
