# The two images of RouterFleet, for people who build with Docker or BuildKit:
#
#   docker build --target manager -t routerfleet.io/manager:dev .
#   docker build --target router  -t routerfleet.io/router:dev  .
#
# The project itself builds the same images without Docker (hack/image). A test
# in hack/repocheck parses this file and compares user, entrypoint, ports and
# labels with the table that hack/image uses, so the two cannot drift apart.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
ENV CGO_ENABLED=0
ENV GOFLAGS="-buildvcs=false -trimpath"
WORKDIR /src
# Modules first: this layer is kept as long as go.mod and go.sum stay the same.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH go build \
      -ldflags "-s -w -X github.com/routerfleet/routerfleet/internal/version.Version=$VERSION" \
      -o /out/ ./cmd/manager ./cmd/router
# All the file system the programs need beside themselves: a name for the user
# and a place for temporary files (mounted over when the root is read-only).
RUN mkdir -p /rootfs/etc /rootfs/tmp \
 && chmod 1777 /rootfs/tmp \
 && echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' > /rootfs/etc/passwd

FROM scratch AS manager
ARG VERSION=dev
LABEL org.opencontainers.image.title="manager" \
      org.opencontainers.image.description="Operator of RouterFleet: runs fleets of KV-cache-aware LLM routers on Kubernetes" \
      org.opencontainers.image.source="https://github.com/routerfleet/routerfleet" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /rootfs/ /
COPY --from=build /out/manager /manager
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS router
ARG VERSION=dev
LABEL org.opencontainers.image.title="router" \
      org.opencontainers.image.description="Router of RouterFleet: forwards OpenAI-style traffic to the engine that holds the prompt's prefix" \
      org.opencontainers.image.source="https://github.com/routerfleet/routerfleet" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /rootfs/ /
COPY --from=build /out/router /router
EXPOSE 30000/tcp 9400/tcp
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/router"]
