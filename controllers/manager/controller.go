package manager

import (
	"fmt"

	"github.com/routerfleet/routerfleet/controllers"

	ctrl "sigs.k8s.io/controller-runtime"
)

func addController(mgr ctrl.Manager) error {
	reconciler, err := controllers.New(controllers.Options{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
	})
	if err != nil {
		return fmt.Errorf("create RouterFleet controller: %w", err)
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("start RouterFleet controller: %w", err)
	}
	return nil
}
