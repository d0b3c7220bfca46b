package credentialprovider_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/images/credentialprovider"
)

// testEnv is a directory with a configuration and a plugin: a shell script that counts its runs and
// keeps what it was asked.
type testEnv struct {
	t        *testing.T
	dir      string
	now      time.Time
	accounts credentialprovider.ServiceAccounts
	ran      []string
}

func newTestEnv(t *testing.T, script string) *testEnv {
	t.Helper()
	w := &testEnv{t: t, dir: t.TempDir(), now: time.Unix(1e9, 0)}
	w.write("bin/plugin", "#!/bin/sh\necho run >> "+w.dir+"/runs\ncat > "+w.dir+"/asked\n"+script, 0o755)
	return w
}

func (w *testEnv) write(name, text string, mode os.FileMode) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
}

func (w *testEnv) read(name string) string {
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *testEnv) open(config string) (*credentialprovider.Providers, error) {
	w.write("config.yaml", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"+config,
		0o644)
	return credentialprovider.New(credentialprovider.Deps{
		Files: credentialprovider.Files{File: filepath.Join(w.dir, "config.yaml"),
			Dir: filepath.Join(w.dir, "bin")},
		ServiceAccounts: w.accounts, Configs: []string{filepath.Join(w.dir, "docker.json")},
		Now: func() time.Time { return w.now },
		Ran: func(plugin string, _ time.Duration, err error) {
			w.ran = append(w.ran, fmt.Sprintf("%s failed=%t", plugin, err != nil))
		},
	})
}

// credentials returns user:password of each credential.
func (w *testEnv) credentials(p *credentialprovider.Providers, image string, pod *v1.Pod) string {
	w.t.Helper()
	got, bad := p.Credentials(w.t.Context(), image, pod)
	var out []string
	for _, c := range got {
		out = append(out, c.Auth.Username+":"+c.Auth.Password)
	}
	for _, err := range bad {
		out = append(out, "error "+err.Error())
	}
	return strings.Join(out, " ")
}

func response(key, duration string) string {
	return `echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",` +
		`"cacheKeyType":"` + key + `","cacheDuration":"` + duration +
		`","auth":{"*.example.com":{"username":"u","password":"'$WORD'"},"other.example.org":{"username":"no",` +
		`"password":"no"}}}'`
}

const plugin = `- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example.com", "registry.test:5000/team"]
  defaultCacheDuration: 10m
  args: [get]
  env: [{name: WORD, value: secret}]
`

// row: CRI-24
func TestPluginMatchImages(t *testing.T) {
	w := newTestEnv(t, response("Image", "0s"))
	p, err := w.open(plugin)
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"eu.example.com/a:1": "u:secret", "example.com/a": "", "a.b.example.com/a": "", "eu.example.com:5000/a": "",
		"registry.test:5000/team/app": "", "registry.test/team/app": "", "busybox": "",
	} {
		if got := w.credentials(p, image, nil); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
	if got := strings.Count(w.read("runs"), "run"); got != 2 { // eu.example.com and registry.test:5000/team
		t.Errorf("%d runs", got)
	}
	if got := strings.Join(w.ran, ", "); got != "plugin failed=false, plugin failed=false" {
		t.Errorf("told of the runs %q, want two that did not fail", got)
	}
	raw := w.read("config.yaml")
	sum := sha256.Sum256([]byte("\x00\x00\x00\x00\x00\x00" + string([]byte{byte(len(raw) >> 8), byte(len(raw))}) + raw))
	if got, want := p.ConfigHash(), fmt.Sprintf("sha256:%x", sum); got != want {
		t.Errorf("hash of the configuration %s, want %s", got, want)
	}
	w.credentials(p, "eu.example.com/a:1", nil)
	if got, want := w.read("asked"),
		`{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1",`+
			`"image":"eu.example.com/a:1"}`; got != want {
		t.Errorf("read = %q, want %q", got, want)
	}
}

func TestCacheDuration(t *testing.T) {
	for key, runs := range map[string]int{"Image": 3, "Registry": 2, "Global": 1} {
		w := newTestEnv(t, response(key, "5m"))
		p, err := w.open(plugin)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range []string{"eu.example.com/a:1", "eu.example.com/a:2", "eu.example.com/b",
			"us.example.com/a", "eu.example.com/a@sha256:" + strings.Repeat("0", 64)} {
			if got := w.credentials(p, image, nil); got != "u:secret" {
				t.Errorf("%s %s: got %s, want u:secret", key, image, got)
			}
		}
		if got := strings.Count(w.read("runs"), "run"); got != runs {
			t.Errorf("%s: %d runs, want %d", key, got, runs)
		}
		w.now = w.now.Add(5 * time.Minute)
		w.credentials(p, "eu.example.com/a:1", nil)
		if got := strings.Count(w.read("runs"), "run"); got != runs+1 {
			t.Errorf("%s: %d runs after the answer's life", key, got)
		}
	}
}

// versionedResponse is a plugin's script that answers in a version of the API.
func versionedResponse(version, more string) string {
	return `echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/` + version +
		`"` + more + `}'`
}

func TestPluginFailuresAreReported(t *testing.T) {
	for script, want := range map[string]string{
		"echo no luck >&2; " +
			"exit 3": `error execing credential provider plugin plugin for image eu.example.com/a: exit status 3 ` +
			`("no ` +
			`luck\n")`,
		"echo '{}'":                      `unexpected kind: ""`,
		"echo hello":                     "error decoding credential provider plugin response",
		versionedResponse("v1beta1", ""): "did not match expected apiVersion",
		versionedResponse("v1", `,"cacheKeyType":"Pod"`): `did not return a valid cacheKeyType: "Pod"`,
	} {
		w := newTestEnv(t, script)
		p, err := w.open(plugin)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.credentials(p, "eu.example.com/a", nil); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want it with %v", script, got, want)
		}
		if got := strings.Join(w.ran, ", "); got != "plugin failed=true" {
			t.Errorf("%s: told of the runs %q, want one that failed", script, got)
		}
	}
}

type fakeServiceAccounts struct{ notes map[string]string }

func (a fakeServiceAccounts) GetServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "sa-uid",
		Annotations: a.notes}}, nil
}

func (a fakeServiceAccounts) GetToken(_ context.Context, pod *v1.Pod, audience string) (string, error) {
	return fmt.Sprintf("token of %s for %s", pod.Name, audience), nil
}

func TestServiceAccountTokens(t *testing.T) {
	w := newTestEnv(t, response("Registry", "5m"))
	w.accounts = fakeServiceAccounts{map[string]string{"example.com/role": "reader", "example.com/unasked": "x"}}
	p, err := w.open(plugin + `  tokenAttributes:
    serviceAccountTokenAudience: registry
    cacheType: ServiceAccount
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [example.com/role]
    optionalServiceAccountAnnotationKeys: [example.com/zone]
`)
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}}
	if got := w.credentials(p, "eu.example.com/a", pod); got != "" || w.read("runs") != "" {
		t.Errorf("a Pod without a service account: %q", got)
	}
	pod.Spec.ServiceAccountName = "default"
	got, bad := p.Credentials(t.Context(), "eu.example.com/a", pod)
	if len(got) != 1 || len(bad) != 0 || got[0].Origin.NodeWide() || got[0].Origin.ServiceAccount.UID != "sa-uid" {
		t.Fatalf("got %+v %v, want 1 in got, no bad, got[0].Origin.NodeWide() false and UID sa-uid", got, bad)
	}
	if got := w.read("asked"); !strings.Contains(got, `"serviceAccountToken":"token of web for registry",`+
		`"serviceAccountAnnotations":{"example.com/role":"reader"}}`) {
		t.Errorf(`got %v, want it with '"serviceAccountToken":"token of web for registry","ser…'`, got)
	}
	other := pod.DeepCopy()
	other.Name, other.UID = "db", "2"
	w.credentials(p, "eu.example.com/b", other) // the same account: kept
	if got := strings.Count(w.read("runs"), "run"); got != 1 {
		t.Errorf("%d runs", got)
	}
	w.accounts.(fakeServiceAccounts).notes["example.com/zone"] = "z" // the plugin's input has changed
	w.credentials(p, "eu.example.com/b", other)
	delete(w.accounts.(fakeServiceAccounts).notes, "example.com/role") // the account takes part no more
	if got := w.credentials(p, "eu.example.com/b", other); got != "" || strings.Count(w.read("runs"), "run") != 2 {
		t.Errorf("%q after %d runs", got, strings.Count(w.read("runs"), "run"))
	}
}

func TestNodesDockerConfiguration(t *testing.T) {
	w := newTestEnv(t, "exit 1")
	w.write("docker.json", `{"auths":{"registry.test:5000":{"auth":"bWU6d29yZA=="}}}`, 0o600)
	p, err := w.open(plugin)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.credentials(p, "registry.test:5000/app", nil); got != "me:word" {
		t.Errorf(`credentials = %q, want "me:word"`, got)
	}
}

// provider is one entry of a configuration in flow style, with more fields.
func provider(name, version, fields string) string {
	return "- {name: " + name + ", apiVersion: credentialprovider.kubelet.k8s.io/" + version + ", " + fields + "}\n"
}

func TestBadConfiguration(t *testing.T) {
	w := newTestEnv(t, "exit 1")
	const fields = "matchImages: [a.b], defaultCacheDuration: 1m"
	for config, want := range map[string]string{
		"  []\n": "providers: Required value: at least 1 item in plugins is required",

		provider("gone", "v1", fields):   "plugin binary executable " + w.dir + "/bin/gone did not exist",
		provider("a/b", "v1", fields):    `providers[0].name: Invalid value: "a/b": provider name cannot contain path`,
		provider("plugin", "v2", fields): "providers[0].apiVersion: Unsupported value",

		provider("plugin", "v1", "matchImages: [], defaultCacheDuration: 1m"): "providers[0].matchImages: Required " +
			"value: at least 1 item in matchImages is required",

		provider("plugin", "v1", "matchImages: [a.b]"): "providers[0].defaultCacheDuration: Required value",
		provider("plugin", "v1", "matchImage: [a.b]"):  `unknown field "providers[0].matchImage"`,

		plugin + "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: " +
			"true}\n": "providers[0].tokenAttributes.cacheType: Required value",

		plugin + plugin: `providers[1].name: Duplicate value: "plugin"`,
	} {
		if _, err := w.open(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", config, err, want)
		}
	}
	_, err := credentialprovider.New(credentialprovider.Deps{Files: credentialprovider.Files{File: "x"}})
	if err == nil || !strings.Contains(err.Error(), "go together") {
		t.Errorf(`got %v, want an error with "go together"`, err)
	}
}
