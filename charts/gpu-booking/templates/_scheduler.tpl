{{/* The configuration of a kube-scheduler that asks the extender about pods with GPUs. Arguments: root, url. */}}
{{- define "gpu-booking.asking" -}}
# Or the only node with a free GPU may not be among those that are looked at.
percentageOfNodesToScore: 100
extenders:
  - urlPrefix: {{ .url }}
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    bindVerb: bind
    weight: {{ .root.Values.scheduler.weight }}
    # A bind is answered within 4 s, whatever it waits for.
    httpTimeout: 5s
    # Names are sent, not whole Nodes: the extender answers nothing else.
    nodeCacheCapable: true
    # Or pods are bound without devices while the extender is away.
    ignorable: false
    # kube-scheduler counts GPUs too, as the kubelet will.
    managedResources:
      - name: nvidia.com/gpu
        ignoredByScheduler: false
      {{- range .root.Values.scheduler.migProfiles }}
      - name: nvidia.com/mig-{{ . }}
        ignoredByScheduler: false
      {{- end }}
{{- end }}

{{/* Mode dedicated: the whole configuration of our own kube-scheduler. Argument: the root context. */}}
{{- define "gpu-booking.dedicatedScheduler" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
# 50 requests per second, the default, are too few for a burst of pods.
clientConnection: {qps: 1000, burst: 2000}
# Two schedulers of one profile would decide about the same pod.
leaderElection:
  leaderElect: true
  resourceNamespace: {{ .Release.Namespace }}
  resourceName: gpu-booking-scheduler
  # Who is killed is replaced after some twelve seconds, and not some eighteen.
  leaseDuration: 10s
  renewDeadline: 7s
  retryPeriod: 1s
profiles:
  - schedulerName: {{ .Values.scheduler.name | quote }}
{{ include "gpu-booking.asking" (dict "root" . "url" "http://127.0.0.1:8880") }}
{{- end }}

{{/*
Mode existing: the configuration of the cluster's own kube-scheduler, whole, as one of kubeadm's needs it. Who has one takes
over what begins with percentageOfNodesToScore. Argument: the root context.
*/}}
{{- define "gpu-booking.existingScheduler" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
leaderElection: {leaderElect: true}
{{ include "gpu-booking.asking" (dict "root" . "url" "https://CLUSTER-IP:8880") }}
    # Without a caFile kube-scheduler would believe anybody.
    enableHTTPS: true
    tlsConfig:
      serverName: gpu-booking-extender.{{ .Release.Namespace }}.svc
      caFile: /etc/kubernetes/gpu-booking/ca.crt
      certFile: /etc/kubernetes/gpu-booking/scheduler.crt
      keyFile: /etc/kubernetes/gpu-booking/scheduler.key
{{- end }}
