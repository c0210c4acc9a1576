package children

import (
	"strconv"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// RouterName is the name of a fleet's ServiceAccount, Role and RoleBinding.
func RouterName(fleet string) string { return fleet + "-router" }

// ServiceName is the name of the Service clients use.
func ServiceName(fleet string) string { return fleet }

// PeerServiceName is the name of the headless Service by which replicas find
// each other.
func PeerServiceName(fleet string) string { return fleet + "-peers" }

// TokensName is the name of the Secret with a fleet's tokens.
func TokensName(fleet string) string { return fleet + "-tokens" }

// ModelsName is the name of the ConfigMap with a models file of this hash.
func ModelsName(fleet, hash string) string { return fleet + "-models-" + hash }

// RevisionName is the name of the ControllerRevision of a revision hash.
func RevisionName(fleet, hash string) string { return fleet + "-" + hash }

// ReplicaSetName is the name of a slot's ReplicaSet: <fleet>-<slot>-<hash>, and
// -<retry> when ReplicaSets of that name were retired before.
func ReplicaSetName(fleet, hash string, slot, retry int32) string {
	name := fleet + "-" + decimal(slot) + "-" + hash
	if retry > 0 {
		name += "-" + decimal(retry)
	}
	return name
}

// ServiceURL is where clients of the cluster reach a fleet: its first port.
func ServiceURL(f *v1alpha1.RouterFleet) string {
	port := v1alpha1.PortHTTP
	if len(f.Spec.Service.Ports) > 0 {
		port = f.Spec.Service.Ports[0].Port
	}
	return "http://" + ServiceName(f.Name) + "." + f.Namespace + ".svc:" + decimal(port)
}

func decimal(n int32) string { return strconv.FormatInt(int64(n), 10) }
