#!/bin/sh
# Writes everything that is generated from Go source: deepcopy, apply
# configurations, the CRD, the operator's RBAC and the reference pages. Run it
# from the root of the repository.
#
# maxDescLen: the embedded core types bring long descriptions; cut to 200
# characters the CRD stays under the 256 KiB that an annotation may hold, which
# is what client-side kubectl apply needs. Our own are hardly longer.
set -eu
go tool -modfile=hack/tools/go.mod controller-gen \
	object:headerFile= \
	applyconfiguration:headerFile= \
	crd:maxDescLen=200 \
	paths=./api/... \
	output:crd:artifacts:config=config/crd/bases
go tool -modfile=hack/tools/go.mod controller-gen \
	rbac:roleName=routerfleet-manager \
	paths=./controllers/children paths=./controllers/manager \
	output:rbac:artifacts:config=config/rbac
go run ./hack/docgen
