package helm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// scaledObject is what the chart uses of KEDA's keda.sh/v1alpha1.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		PollingInterval int32 `json:"pollingInterval"`
		CooldownPeriod  int32 `json:"cooldownPeriod"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// serviceMonitor and prometheusRule are what the chart uses of monitoring.coreos.com/v1.
type serviceMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type ruleGroups struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type prometheusRule struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            ruleGroups `json:"spec"`
}

// objects are all documents of a golden file, each decoded into the type of its kind; an unknown field is an error.
func objects(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	out := map[string]any{}
	for _, doc := range strings.Split(string(data), "---\n") {
		var kind struct {
			meta.TypeMeta   `json:",inline"`
			meta.ObjectMeta `json:"metadata"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &kind), file)
		if kind.Kind == "" {
			continue
		}
		into := map[string]func() any{
			"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
			"v1/Service":                              func() any { return new(core.Service) },
			"v1/ServiceAccount":                       func() any { return new(core.ServiceAccount) },
			"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
			"apps/v1/StatefulSet":                     func() any { return new(apps.StatefulSet) },
			"batch/v1/Job":                            func() any { return new(batch.Job) },
			"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
			"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
			"scheduling.k8s.io/v1/PriorityClass":      func() any { return new(scheduling.PriorityClass) },
			"keda.sh/v1alpha1/ScaledObject":           func() any { return new(scaledObject) },
			"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(serviceMonitor) },
			"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(prometheusRule) },
		}[kind.APIVersion+"/"+kind.Kind]
		require.NotNil(t, into, "%s: %s %s is of no kind that this test knows", file, kind.APIVersion, kind.Kind)
		value := into()
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), value), "%s: %s %s", file, kind.Kind, kind.Name)
		key := kind.Kind + "/" + kind.Name
		require.NotContains(t, out, key, "%s: twice", file)
		out[key] = value
	}
	require.NotEmpty(t, out)
	return out
}

func goldens(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(goldenDir + "/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 6)
	return found
}

func TestEveryDocumentDecodesStrictlyIntoItsKubernetesType(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range goldens(t) {
		for key := range objects(t, file) {
			kind, _, _ := strings.Cut(key, "/")
			seen[kind] = true
		}
	}
	require.Len(t, seen, 12, "every kind of the chart stands in some value set")
}
