package helm_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
)

// reached are the ports that a part's network policy lets it reach, with the app label or the namespace of who answers.
func reached(all map[string]any, part string) map[string]int32 {
	out := map[string]int32{}
	for _, e := range all["NetworkPolicy/verigraph-"+part].(*networking.NetworkPolicy).Spec.Egress {
		for _, to := range e.To {
			name := "addresses"
			switch {
			case to.PodSelector != nil && to.PodSelector.MatchLabels["app"] != "":
				name = to.PodSelector.MatchLabels["app"]
			case to.PodSelector != nil:
				name = to.PodSelector.MatchLabels["app.kubernetes.io/component"]
			case to.NamespaceSelector != nil:
				name = to.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
			}
			out[name] = e.Ports[0].Port.IntVal
		}
	}
	return out
}

func TestAPodReachesWhatItsProgramNeedsAndNothingElse(t *testing.T) {
	for file, want := range map[string][2]map[string]int32{
		"confined": {{"kube-system": 53, "nats": 4222, "policy": 8000}, {"kube-system": 53, "nats": 4222}},
		"gvisor":   {{"kube-system": 53, "nats": 4222, "policy": 8000, "addresses": 443}, {"kube-system": 53, "nats": 4222, "addresses": 443}},
		"strict-autoscaled": {
			{"kube-system": 53, "messaging": 4222, "rollout": 8000, "addresses": 443, "telemetry": 4317},
			{"kube-system": 53, "messaging": 4222, "judge": 8000, "scorers": 8099, "addresses": 443, "telemetry": 4317},
		},
	} {
		all := objects(t, filepath.Join(goldenDir, file+".yaml"))
		require.Equal(t, want[0], reached(all, "worker"), file)
		require.Equal(t, want[1], reached(all, "reward"), file)
		feed := all["Service/verigraph-feed"].(*core.Service).Spec.Ports[0]
		for _, rule := range all["NetworkPolicy/verigraph-reward"].(*networking.NetworkPolicy).Spec.Ingress {
			require.Contains(t, []int32{9090, feed.Port}, rule.Ports[0].Port.IntVal, file)
		}
	}
}

// The parameters are those of KEDA's documentation of the NATS JetStream scaler (2.19).
func TestTheTriggerHasTheScalersParameters(t *testing.T) {
	all := objects(t, filepath.Join(goldenDir, "strict-autoscaled.yaml"))
	trigger := all["ScaledObject/verigraph-worker"].(*scaledObject).Spec.Triggers[0]
	require.Equal(t, "nats-jetstream", trigger.Type)
	known := []string{"natsServerMonitoringEndpoint", "account", "stream", "consumer", "lagThreshold", "activationLagThreshold", "useHttps"}
	for key := range trigger.Metadata {
		require.Contains(t, known, key)
	}
	for _, key := range known[:4] {
		require.NotEmpty(t, trigger.Metadata[key], key)
	}
	lag, err := strconv.Atoi(trigger.Metadata["lagThreshold"])
	require.NoError(t, err)
	require.Positive(t, lag)
}
