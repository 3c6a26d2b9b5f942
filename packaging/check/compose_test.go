package check

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// composed reads packaging/compose.yaml as docker compose does, with something replaced.
func composed(t *testing.T, env map[string]string, change ...string) (*types.Project, error) {
	t.Helper()
	text, err := os.ReadFile("../compose.yaml")
	require.NoError(t, err)
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: "..", Environment: env,
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(strings.NewReplacer(change...).Replace(string(text)))}},
	}, func(o *loader.Options) { o.SetProjectName("saga", true) })
}

func TestCompose(t *testing.T) {
	p, err := composed(t, map[string]string{"POSTGRES_PASSWORD": "secret"})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"saga-1", "saga-2", "postgres", "nginx"}, p.ServiceNames())
	conf, err := os.ReadFile("../nginx.conf")
	require.NoError(t, err)
	for _, name := range []string{"saga-1", "saga-2"} {
		s := p.Services[name]
		assert.True(t, s.ReadOnly, name)
		assert.GreaterOrEqual(t, time.Duration(*s.StopGracePeriod), 2*time.Minute, "see docs/operate.md")
		assert.Equal(t, p.Services["nginx"].Networks["default"].Ipv4Address, *s.Environment["SAGA_TRUSTED_PROXY"], "the proxy")
		assert.Contains(t, string(conf), "server "+s.Networks["default"].Ipv4Address+":8080 ", "the proxy leads to it")
	}
	for _, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind && v.Target != "/etc/saga" { // the operator makes the keyset
				assert.FileExists(t, v.Source)
			}
		}
	}
	pool := p.Networks["default"].Ipam.Config[0]
	for _, name := range []string{"nginx", "saga-1", "saga-2"} {
		own := netip.MustParseAddr(p.Services[name].Networks["default"].Ipv4Address)
		assert.True(t, netip.MustParsePrefix(pool.Subnet).Contains(own), name)
		assert.False(t, netip.MustParsePrefix(pool.IPRange).Contains(own), "no other container gets the address of %s", name)
	}
	_, err = composed(t, nil)
	assert.ErrorContains(t, err, "name one", "a password by default would be everybody's")
}

func TestComposeMisspelt(t *testing.T) {
	for right, wrong := range map[string]string{
		"read_only:": "readonly:", "stop_grace_period: 2m": "stop_grace_period: long", "condition: service_healthy": "condition: healthy",
		"depends_on: [saga-1, saga-2]": "depends_on: [saga-3]", "- ledger:/": "- ledgers:/",
	} {
		_, err := composed(t, map[string]string{"POSTGRES_PASSWORD": "secret"}, right, wrong)
		assert.Error(t, err, wrong)
	}
}

// nginx knows no other containers here: it has to start also while they are away.
func TestNginx(t *testing.T) {
	nginx := need(t, "nginx")
	text, err := os.ReadFile("../nginx.conf")
	require.NoError(t, err)
	test := func(change ...string) ([]byte, error) {
		dir := t.TempDir()
		site := strings.NewReplacer(change...).Replace(string(text))
		conf := "pid " + dir + "/pid; error_log stderr; events {} http { access_log off;\n" + site + "}"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600))
		return exec.CommandContext(t.Context(), nginx, "-t", "-p", dir, "-c", "nginx.conf").CombinedOutput()
	}
	said, err := test()
	require.NoError(t, err, "%s", said)
	said, err = test("proxy_buffering", "proxy_bufering")
	assert.Error(t, err)
	assert.Contains(t, string(said), "proxy_bufering")
}
