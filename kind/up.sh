#!/usr/bin/env bash
# A kind cluster with simulated GPUs and our parts in it: `make kind`. Run again, it replaces the parts that have changed.
set -euo pipefail
cd "$(dirname "$0")/.."

CLUSTER=gpu-booking
CONTEXT=kind-$CLUSTER
SIMULATED=localhost/gpu-booking/simulated-gpus:1
VERSION=$(sed -n 's/^appVersion: *//p' charts/gpu-booking/Chart.yaml)

say() { printf '\n%s\n' "$*"; }

need() {
  for program in docker kind kubectl helm; do
    command -v "$program" >/dev/null || { echo "\`make kind\` needs $program, which is not on the PATH." >&2; exit 1; }
  done
  docker info >/dev/null 2>&1 || { echo "Docker is installed, but its daemon does not answer." >&2; exit 1; }
}

# The steps that fetch packages get this machine's certificate authorities, among them a company's own. No provenance: kind
# cannot load the attestations that Docker would attach to an image.
build() {
  local file=$1 target=$2 tag=$3 authorities=/etc/ssl/certs/ca-certificates.crt
  set -- docker buildx build --load --provenance=false "--file=$file" "--target=$target" "--tag=$tag"
  if [ -f "$authorities" ]; then set -- "$@" "--secret=id=authorities,src=$authorities"; fi
  "$@" .
}

# As an annotation this replaces a pod when its image has changed, though the image's name is the same.
identity() { docker image inspect --format '{{.Id}}' "localhost/gpu-booking/$1:$VERSION"; }

need
say "Building the images"
for target in node-agent extender booking; do
  build Dockerfile "$target" "localhost/gpu-booking/$target:$VERSION"
done
build kind/Dockerfile simulated-gpus "$SIMULATED"

say "The cluster"
if ! kind get clusters 2>/dev/null | grep -x "$CLUSTER" >/dev/null; then
  kind create cluster --config kind/cluster.yaml --wait 120s
fi
kind load docker-image --name "$CLUSTER" "$SIMULATED" \
  "localhost/gpu-booking/node-agent:$VERSION" \
  "localhost/gpu-booking/extender:$VERSION" \
  "localhost/gpu-booking/booking:$VERSION"

say "Simulated GPUs and people"
kubectl --context "$CONTEXT" apply --filename kind/simulated-gpus.yaml --filename kind/people.yaml
kubectl --context "$CONTEXT" rollout status daemonset/simulated-gpus --namespace simulated-gpus --timeout 120s

say "The chart"
helm upgrade --install gpu-booking charts/gpu-booking --kube-context "$CONTEXT" \
  --namespace gpu-booking --create-namespace --values kind/values.yaml \
  --set-string "nodeAgent.podAnnotations.image=$(identity node-agent)" \
  --set-string "extender.podAnnotations.image=$(identity extender)" \
  --set-string "controller.podAnnotations.image=$(identity booking)" \
  --set-string "server.podAnnotations.image=$(identity booking)"
for workload in daemonset/gpu-booking-node-agent deployment/gpu-booking-scheduler \
  deployment/gpu-booking-controller deployment/gpu-booking-server; do
  kubectl --context "$CONTEXT" rollout status "$workload" --namespace gpu-booking --timeout 300s
done

cat <<END

Page and REST API: http://localhost:8080
Sign in there with a token of alice's (or bob's), which this prints:
    kubectl --context $CONTEXT create token alice --namespace research --audience gpu-booking
The GPUs: kubectl --context $CONTEXT get nodes --output custom-columns=NAME:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu
Nothing of it remains after: make kind-down
END
