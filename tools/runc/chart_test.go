package runc_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// chart is what a value set renders to, as far as pods are made of it. tools/helm keeps the golden files true.
type chart struct {
	pods     map[string]core.PodTemplateSpec // by component
	configs  map[string]map[string]string    // ConfigMaps by name
	policies []networking.NetworkPolicy
	services map[string]string // the component behind each Service
}

const component = "app.kubernetes.io/component"

func rendered(t *testing.T, set string) chart {
	t.Helper()
	data, err := os.ReadFile(root + "deploy/helm/golden/" + set + ".yaml")
	require.NoError(t, err)
	c := chart{pods: map[string]core.PodTemplateSpec{}, configs: map[string]map[string]string{}, services: map[string]string{}}
	for _, doc := range strings.Split(string(data), "---\n") {
		var kind meta.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(doc), &kind))
		into := func(v any) { require.NoError(t, yaml.UnmarshalStrict([]byte(doc), v)) }
		add := func(p core.PodTemplateSpec) { c.pods[p.Labels[component]] = p }
		switch kind.Kind {
		case "Deployment":
			var v apps.Deployment
			into(&v)
			add(v.Spec.Template)
		case "StatefulSet":
			var v apps.StatefulSet
			into(&v)
			add(v.Spec.Template)
		case "Job":
			var v batch.Job
			into(&v)
			add(v.Spec.Template)
		case "ConfigMap":
			var v core.ConfigMap
			into(&v)
			c.configs[v.Name] = v.Data
		case "Service":
			var v core.Service
			into(&v)
			c.services[v.Name] = v.Spec.Selector[component]
		case "NetworkPolicy":
			var v networking.NetworkPolicy
			into(&v)
			c.policies = append(c.policies, v)
		}
	}
	require.Contains(t, c.pods, "worker")
	require.Contains(t, c.pods, "reward")
	return c
}
