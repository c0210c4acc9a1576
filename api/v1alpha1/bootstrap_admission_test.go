//go:build envtest

package v1alpha1_test

import "github.com/routerfleet/routerfleet/api/v1alpha1"

// bootstrapRules are the rules of spec.bootstrap.
var bootstrapRules = []rule{
	{
		message: "upstreamPeers needs serviceName",
		accept: func(f *v1alpha1.RouterFleet) {
			f.Spec.Bootstrap.UpstreamPeers = v1alpha1.UpstreamPeersSpec{ServiceName: "sgl-router"}
		},
		reject: func(f *v1alpha1.RouterFleet) {
			f.Spec.Bootstrap.UpstreamPeers = v1alpha1.UpstreamPeersSpec{PortName: "metrics"}
		},
	},
}
