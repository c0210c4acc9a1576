package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BridgeSysctls is there once the kernel can pass bridged packets to iptables.
const BridgeSysctls = "/proc/sys/net/bridge"

// bridgeFilters are the switches in it that a freshly loaded module turns on.
var bridgeFilters = []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables"}

// LoadBridgeFilter makes sure that bridged packets can pass iptables in the
// nodes. All other modules a node needs are loaded by the kernel on first use;
// this one has to be asked for. The host's own bridges (Docker's, libvirt's) keep
// working as before: for them it is switched off again.
func LoadBridgeFilter(ctx context.Context, sysctls string, modprobe func(context.Context) error) error {
	if _, err := os.Stat(sysctls); err == nil {
		return nil
	}
	if err := modprobe(ctx); err != nil {
		return fmt.Errorf("load the kernel module br_netfilter, without which no Service and no policy works between pods of a node: %w", err)
	}
	var errs []error
	for _, name := range bridgeFilters {
		errs = append(errs, os.WriteFile(filepath.Join(sysctls, name), []byte("0"), 0o644))
	}
	return errors.Join(errs...)
}

// Modprobe loads br_netfilter.
func Modprobe(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "modprobe", "br_netfilter").CombinedOutput(); err != nil {
		return fmt.Errorf("modprobe br_netfilter: %w %s", err, out)
	}
	return nil
}
