package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlay is the one that docs/install.md shows, with the base beside it.
func overlay(t *testing.T) string {
	t.Helper()
	text := read(t, "../../docs/install.md")
	shown := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(text)
	require.NotNil(t, shown)
	local := regexp.MustCompile(`"https://[^"]*//packaging/kubernetes\?ref=v[\d.]+"`).ReplaceAllString(shown[1], "../base")
	require.NotEqual(t, shown[1], local)
	return local
}

// objects are those of a directory, the base or the overlay, as kustomize makes them, with something replaced in the base, read as the API
// server reads them when it is told to be strict.
func objects(t *testing.T, dir string, change *strings.Replacer) (list []runtime.Object, err error) {
	t.Helper()
	files, err := filepath.Glob("../kubernetes/*.yaml")
	require.NoError(t, err)
	disk := filesys.MakeFsInMemory()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, disk.WriteFile("/base/"+filepath.Base(file), []byte(change.Replace(string(text)))))
	}
	require.NoError(t, disk.WriteFile("/overlay/kustomization.yaml", []byte(overlay(t))))
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, dir)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(policyv1.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		require.NoError(t, err)
		o, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

func only[T runtime.Object](t *testing.T, list []runtime.Object) (found T) {
	t.Helper()
	n := 0
	for _, o := range list {
		if o, ok := o.(T); ok {
			found = o
			n++
		}
	}
	require.Equal(t, 1, n, "%T", found)
	return found
}

func TestKubernetes(t *testing.T) {
	list, err := objects(t, "/base", strings.NewReplacer())
	require.NoError(t, err)
	deployment, service := only[*appsv1.Deployment](t, list), only[*corev1.Service](t, list)
	budget, settings := only[*policyv1.PodDisruptionBudget](t, list), only[*corev1.ConfigMap](t, list)
	pod := deployment.Spec.Template

	// Everything means these pods.
	for _, selector := range []*metav1.LabelSelector{deployment.Spec.Selector, budget.Spec.Selector, {MatchLabels: service.Spec.Selector}, pod.Spec.TopologySpreadConstraints[0].LabelSelector} {
		s, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		assert.True(t, !s.Empty() && s.Matches(labels.Set(pod.Labels)), s.String())
	}
	// A node that is drained takes one replica, and never the last.
	assert.Greater(t, int(*deployment.Spec.Replicas), budget.Spec.MaxUnavailable.IntValue())

	c := pod.Spec.Containers[0]
	assert.Equal(t, "registry.example.com/saga:0.1.0", c.Image)
	require.NotNil(t, c.StartupProbe)
	assert.Equal(t, settings.Name, c.EnvFrom[0].ConfigMapRef.Name)
	assert.Equal(t, service.Spec.Ports[0].TargetPort.StrVal, c.Ports[0].Name)
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		assert.Equal(t, path, probe.HTTPGet.Path)
		assert.Equal(t, c.Ports[0].Name, probe.HTTPGet.Port.StrVal)
		assert.Greater(t, probe.TimeoutSeconds, int32(2), "see docs/operate.md")
	}
	// docs/ledger.md: a server waits for its database when it starts.
	assert.Equal(t, c.LivenessProbe.HTTPGet, c.StartupProbe.HTTPGet)
	assert.GreaterOrEqual(t, c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold, int32(3600))
	// docs/operate.md: two minutes, which begin when the pause ends.
	assert.GreaterOrEqual(t, *pod.Spec.TerminationGracePeriodSeconds, 120+c.Lifecycle.PreStop.Sleep.Seconds)
	assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem && *pod.Spec.SecurityContext.RunAsNonRoot && !*c.SecurityContext.AllowPrivilegeEscalation)
	// codec.LoadKeyset takes root's file if only its group can read it.
	assert.EqualValues(t, 0o440, *pod.Spec.Volumes[0].Secret.DefaultMode)
	assert.Equal(t, *pod.Spec.SecurityContext.RunAsGroup, *pod.Spec.SecurityContext.FSGroup)
}

// What docs/install.md has users write changes what it says.
func TestKubernetesOverlay(t *testing.T) {
	list, err := objects(t, "/overlay", strings.NewReplacer())
	require.NoError(t, err)
	assert.Equal(t, "registry.example.org/saga:0.1.0", only[*appsv1.Deployment](t, list).Spec.Template.Spec.Containers[0].Image)
	settings := only[*corev1.ConfigMap](t, list).Data
	assert.Equal(t, map[string]string{"SAGA_ALLOW_HOST": "tools.example.org", "SAGA_AUDIENCE": "canteen-production", "SAGA_LOG_JSON": "true"}, settings)
}

func TestKubernetesMisspelt(t *testing.T) {
	for right, wrong := range map[string]string{
		"readinessProbe:": "readynessProbe:", "maxUnavailable: 1": "maxUnavailble: 1", "targetPort:": "targetport:", "newTag:": "newTags:",
		"terminationGracePeriodSeconds: 130": "terminationGracePeriodSeconds: 130s", "disruption.yaml": "disruptions.yaml", "policy/v1": "policy/v2",
	} {
		_, err := objects(t, "/base", strings.NewReplacer(right, wrong))
		assert.Error(t, err, wrong)
	}
}
