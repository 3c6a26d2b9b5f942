package check

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// whole is a release with everything, and its version: that of RELEASE_DIR, as the release workflow has just made it,
// or one that is made now, twice, if SAGA_NIGHTLY is 1.
func whole(t *testing.T) (dir, version string) {
	t.Helper()
	if dir := os.Getenv("RELEASE_DIR"); dir != "" {
		return dir, strings.TrimPrefix(os.Getenv("RELEASE_VERSION"), "v")
	}
	if os.Getenv("SAGA_NIGHTLY") != "1" {
		t.Skip("it takes minutes: set SAGA_NIGHTLY=1")
	}
	for _, name := range []string{"buildah", "rpm", "dpkg-deb", "zip", "jq"} {
		need(t, name)
	}
	dir = release(t, "v1.2.3")
	again := release(t, "v1.2.3")
	assert.Equal(t, read(t, dir, "checksums.txt"), read(t, again, "checksums.txt"), "the same commit gives the same files")
	return dir, "1.2.3"
}

func TestWholeRelease(t *testing.T) {
	dir, version := whole(t)
	prefix := filepath.Join(dir, "saga_"+version+"_")
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"} {
		for _, kind := range []string{".tar.gz", ".cdx.json", ".mcpb"} {
			assert.FileExists(t, prefix+platform+kind)
		}
	}
	assert.NotContains(t, output(t, "sh", "-c", "cd "+dir+" && sha256sum --check checksums.txt"), "FAILED")
	require.NoError(t, described(t, schema(t), filepath.Join(dir, "server.json")))

	for arch, rpm := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		assert.Equal(t, version+" "+arch, strings.TrimSpace(output(t, "dpkg-deb", "--show", "--showformat=${Version} ${Architecture}", prefix+"linux_"+arch+".deb")))
		assert.Equal(t, version+" "+rpm, output(t, "rpm", "--query", "--queryformat=%{VERSION} %{ARCH}", "--package", prefix+"linux_"+arch+".rpm"))
		files := output(t, "rpm", "--query", "--list", "--package", prefix+"linux_"+arch+".rpm")
		for _, removed := range []string{
			output(t, "dpkg-deb", "--info", prefix+"linux_"+arch+".deb", "prerm"),
			output(t, "rpm", "--query", "--scripts", "--package", prefix+"linux_"+arch+".rpm"),
		} {
			assert.Contains(t, removed, "disable --now saga.service", "removing it ends the service")
		}
		root := t.TempDir()
		output(t, "dpkg-deb", "--extract", prefix+"linux_"+arch+".deb", root)
		for _, file := range []string{"/usr/bin/saga", "/usr/lib/systemd/system/saga.service", "/usr/lib/sysusers.d/saga.conf", "/etc/saga/saga.yaml"} {
			assert.Contains(t, files, file+"\n")
			assert.FileExists(t, root+file)
		}
		if arch == runtime.GOARCH {
			assert.Equal(t, "saga version v"+version+"\n", output(t, root+"/usr/bin/saga", "--version"))
			output(t, root+"/usr/bin/saga", "--config", root+"/etc/saga/saga.yaml", "serve", "--print-config")
			output(t, need(t, "systemd-sysusers"), "--root="+root, root+"/usr/lib/sysusers.d/saga.conf")
			assert.Contains(t, read(t, root, "etc/passwd"), "saga:")
		}
		t.Run("image "+arch, func(t *testing.T) { image(t, prefix+"linux_"+arch+".oci.tar.gz", version, arch) })
	}
}

// readOnly runs the program of an image whose files are in $1 as its user, with the directory $2 where the image looks for its
// keyset, and so that nothing can be written.
const readOnly = `set -e
mount --bind "$1" "$1"
mkdir -p "$1/etc/saga"
mount --bind "$2" "$1/etc/saga"
mount -o remount,bind,ro "$1"
PATH=$PATH:/usr/sbin
exec chroot --userspec="$3" "$1" "$4" serve`

// image looks at an image, and starts that of this machine.
func image(t *testing.T, archive, version, arch string) {
	dir, err := os.MkdirTemp("", "image") // names of images have no capitals, as the names of tests have
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := t.TempDir()
	output(t, "tar", "xzf", archive, "-C", dir)
	buildah := func(arguments ...string) string {
		return strings.TrimSpace(output(t, "buildah", append([]string{"--storage-driver", "vfs", "--root", home + "/storage", "--runroot", home + "/run"}, arguments...)...))
	}
	container := buildah("from", "--quiet", "--arch", arch, "oci:"+dir+":"+version)
	t.Cleanup(func() {
		_ = exec.Command("buildah", "--storage-driver", "vfs", "--root", home+"/storage", "--runroot", home+"/run", "rm", "--all").Run()
	})
	var about struct {
		OCIv1 struct {
			Architecture string
			Config       struct {
				User            string
				Env, Entrypoint []string
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(buildah("inspect", container)), &about))
	config := about.OCIv1.Config
	assert.Equal(t, arch, about.OCIv1.Architecture)
	assert.Equal(t, "65532:65532", config.User)
	if arch != runtime.GOARCH {
		return
	}
	keys := filepath.Join(home, "keys", "keyset.json")
	require.NoError(t, os.Mkdir(filepath.Dir(keys), 0o755))
	program := filepath.Join(buildah("mount", container), config.Entrypoint[0])
	output(t, program, "keys", "new", "--keyset", keys)
	require.NoError(t, os.Chown(keys, 0, 65532)) // as Kubernetes mounts a secret
	require.NoError(t, os.Chmod(keys, 0o440))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", readOnly, "sh", buildah("mount", container), filepath.Dir(keys), config.User, config.Entrypoint[0])
	cmd.Env = append(config.Env, "PATH="+os.Getenv("PATH"), "SAGA_ADDR="+addr)
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		assert.NoError(t, cmd.Wait(), log.String())
	}()
	// Probes name the address of the pod.
	for _, path := range []string{"/healthz", "/readyz"} {
		assert.EventuallyWithT(t, func(c *assert.CollectT) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
			require.NoError(c, err)
			r.Host = "10.1.2.3:8080"
			response, err := http.DefaultClient.Do(r)
			require.NoError(c, err)
			_ = response.Body.Close()
			assert.Equal(c, http.StatusOK, response.StatusCode)
		}, 20*time.Second, 100*time.Millisecond, path)
	}
	output(t, program, "keys", "add", "--keyset", keys)
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		response, err := http.Get("http://" + addr + "/readyz")
		require.NoError(c, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(c, err)
		_ = response.Body.Close()
		assert.Equal(c, 2, strings.Count(string(body), `"id"`), "the container has the changed keyset")
	}, 20*time.Second, 100*time.Millisecond)
}
