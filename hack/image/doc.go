// Command image builds the project's images without Docker and without a base
// image: one layer with a static program, /etc/passwd and /tmp.
//
//	go run ./hack/image --out bin/images --tag dev manager router
//
// Each image becomes one tar file that is an OCI image layout and a docker
// archive at once, so that `ctr images import`, `kind load image-archive`,
// `docker load`, `skopeo` and `crane` all take it.
//
// The invariant: the same sources, Go version and flags give the same bytes, on
// any machine and in any folder. Times are fixed, entries are sorted, and the
// layer is not compressed, since compressors change their output.
package main
