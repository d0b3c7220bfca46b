package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/encryptioncheck"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/test/expect"
)

// restartableServer is a server over a directory that outlives it.
type restartableServer struct {
	*apiserver.Server
	client kubernetes.Interface
	stop   func()
}

func startServer(t testing.TB, dir string, change func(*apiserver.Config)) (*restartableServer, error) {
	t.Helper()
	c := apiserver.Config{
		Listen: apiserver.Listen{Address: "127.0.0.1", Port: -1}, DataDir: dir,
		Etcd: store.Options{NoFsync: true, Tick: 10 * time.Millisecond},
		Omit: apiserver.Omit{OpenAPIv2Off: true, AggregatorOff: true, CustomResourcesOff: true},
	}
	change(&c)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := apiserver.New(ctx, c)
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	k := &restartableServer{Server: s, stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}}
	t.Cleanup(k.stop)
	select {
	case <-s.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("not ready in two minutes")
	}
	if k.client, err = kubernetes.NewForConfig(s.InProcess(master())); err != nil {
		t.Fatal(err)
	}
	return k, nil
}

func (k *restartableServer) secret(t testing.TB, name, text string) {
	t.Helper()
	_, err := k.client.CoreV1().Secrets("default").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"k": text}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (k *restartableServer) reads(t testing.TB, name, want string) {
	t.Helper()
	s, err := k.client.CoreV1().Secrets("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || string(s.Data["k"]) != want {
		t.Errorf("%s: got %v, want no error and Data[k] %v", name, err, want)
	}
}

// stored is what etcd holds for a Secret.
func (k *restartableServer) stored(t testing.TB, name string) string {
	t.Helper()
	c, err := k.Store().Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res, err := c.Get(t.Context(), "/registry/secrets/default/"+name)
	if err != nil || len(res.Kvs) != 1 {
		t.Fatalf("got %v, %v, want no error and 1 in Kvs", res, err)
	}
	return string(res.Kvs[0].Value)
}

const provider = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm: {keys: [%s]}
  - identity: {}
`

const (
	keyOne = "{name: one, secret: MDEyMzQ1Njc4OWFiY2RlZg==}"
	keyTwo = "{name: two, secret: ZmVkY2JhOTg3NjU0MzIxMA==}"
)

// Secrets are not readable in etcd; keys can be rotated; a key that is missing is refused at start,
// naming resource, file and remedy.
func TestEncryptionAtRest(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	with := func(keys string) func(*apiserver.Config) {
		if err := os.WriteFile(file, fmt.Appendf(nil, provider, keys), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(c *apiserver.Config) { c.Encryption = encryptioncheck.Options{File: file, Reload: true} }
	}
	k, err := startServer(t, dir, func(*apiserver.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	k.secret(t, "plain", "open-sesame")
	if !strings.Contains(k.stored(t, "plain"), "open-sesame") {
		t.Fatal("the test cannot see what is stored")
	}
	k.stop()
	if k, err = startServer(t, dir, with(keyOne)); err != nil {
		t.Fatal(err)
	}
	k.secret(t, "one", "open-sesame")
	if raw := k.stored(t, "one"); strings.Contains(raw, "sesame") || !strings.HasPrefix(raw, "k8s:enc:aesgcm:v1:one:") {
		t.Errorf("stored: got %q, want it free of %q and it to begin with %q", raw, "sesame",
			"k8s:enc:aesgcm:v1:one:")
	}
	k.reads(t, "plain", "open-sesame")
	k.stop()
	if k, err = startServer(t, dir, with(keyTwo+", "+keyOne)); err != nil { // rotated
		t.Fatal(err)
	}
	k.secret(t, "two", "open-sesame")
	if raw := k.stored(t, "two"); !strings.HasPrefix(raw, "k8s:enc:aesgcm:v1:two:") {
		t.Errorf("stored: got %q, want it to begin with %q", raw, "k8s:enc:aesgcm:v1:two:")
	}
	k.reads(t, "one", "open-sesame")
	k.stop()
	_, err = startServer(t, dir, with(keyTwo))
	if err == nil || !strings.Contains(err.Error(), "secrets: no key in "+file+" opens /registry/secrets/default/one") {
		t.Errorf("a missing key: %v", err)
	}
	_, err = startServer(t, dir, func(*apiserver.Config) {})
	if err == nil || !strings.Contains(err.Error(), "--encryption-provider-config") {
		t.Errorf("no configuration: %v", err)
	}
	_, err = startServer(t, dir, with("{name: bad, secret: c2hvcnQ=}"))
	if err == nil || !strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad key: %v", err)
	}
}

// A file of keys that changes is taken while the server runs: new values are written with the new
// first key, old ones are still read.
func TestEncryptionKeysAreReloaded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	with := func(keys string) {
		if err := os.WriteFile(file+".new", fmt.Appendf(nil, provider, keys), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	with(keyOne)
	k, err := startServer(t, t.TempDir(),
		func(c *apiserver.Config) { c.Encryption = encryptioncheck.Options{File: file, Reload: true} })
	if err != nil {
		t.Fatal(err)
	}
	k.secret(t, "one", "open-sesame")
	with(keyTwo + ", " + keyOne)
	n, name := 0, ""
	expect.Poll(t, 50*time.Millisecond, time.Minute, "a Secret is stored with the new key", func() error {
		name = fmt.Sprint("new-", n)
		n++
		k.secret(t, name, "open-sesame")
		if got := k.stored(t, name); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:two:") {
			return fmt.Errorf("stored as %.30q", got)
		}
		return nil
	})
	k.reads(t, name, "open-sesame")
	k.reads(t, "one", "open-sesame")
}

// What the policy names is in the audit log, with the body where it says so; what it leaves out is
// not.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	policy := write(t, "policy.yaml", `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, resources: [{group: "", resources: [events, namespaces]}]}
- {level: Request, verbs: [create], resources: [{group: "", resources: [configmaps]}]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
`)
	o := options.NewAuditOptions()
	o.PolicyFile, o.LogOptions.Path = policy, filepath.Join(t.TempDir(), "audit.log")
	k, err := startServer(t, t.TempDir(), func(c *apiserver.Config) { c.Audit = o })
	if err != nil {
		t.Fatal(err)
	}
	k.secret(t, "hidden", "open-sesame")
	if _, err := k.client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "seen"}, Data: map[string]string{"a": "body-is-here"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(o.LogOptions.Path)
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		var e struct {
			Level, Verb string
			User        struct{ Username string }
			ObjectRef   struct{ Resource, Name string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: got error %v, want none", line, err)
		}
		if e.User.Username == "admin" {
			levels[e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Name] = e.Level
		}
	}
	if levels["create secrets/hidden"] != "Metadata" || levels["create configmaps/seen"] != "Request" ||
		len(levels) != 2 {
		t.Errorf("audited: %v", levels)
	}
	if strings.Contains(string(raw), "sesame") || !strings.Contains(string(raw), "body-is-here") {
		t.Errorf("bodies in the log: %s", raw)
	}
	for name, change := range map[string]func(*options.AuditOptions){
		"--audit-policy-file": func(o *options.AuditOptions) { o.LogOptions.Path = "-" },
		"--audit-log-path":    func(o *options.AuditOptions) { o.PolicyFile = policy },
		"/nowhere":            func(o *options.AuditOptions) { o.PolicyFile, o.LogOptions.Path = "/nowhere", "-" },
	} {
		o := options.NewAuditOptions()
		change(o)
		if _, err := startServer(t, t.TempDir(), func(c *apiserver.Config) { c.Audit = o }); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s named", err, name)
		}
	}
}

// A full store answers writes with a clear 500 that names the remedy, is not ready, goes on reading
// and deleting, and takes writes after the remedy.
func TestFullStoreSaysSo(t *testing.T) {
	t.Parallel()
	k, err := startServer(t, t.TempDir(), func(c *apiserver.Config) { c.Etcd.Quota = 4 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	maps := k.client.CoreV1().ConfigMaps("default")
	big := strings.Repeat("x", 400<<10)
	written := 0
	for ; written < 300; written++ { // etcd looks at the size when it commits: after a hundred writes at the latest
		_, err = maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("big-", written)},
				Data: map[string]string{"a": big}}, metav1.CreateOptions{})
		if err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "database space exceeded") || !strings.Contains(err.Error(),
		"gantry etcd defrag") {
		t.Fatalf("the store never was full, or did not say so: %v", err)
	}
	raw, err := k.client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err == nil || !strings.Contains(string(raw), "[-]etcd") {
		t.Errorf("readyz of a full store: %s, %v", raw, err)
	}
	for n := range written {
		if _, err := maps.Get(t.Context(), fmt.Sprint("big-", n), metav1.GetOptions{}); err != nil {
			t.Errorf("acknowledged, and lost: %v, want no error", err)
		}
		if err := maps.Delete(t.Context(), fmt.Sprint("big-", n), metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete from a full store: %v, want no error", err)
		}
	}
	if _, err := k.Store().Compact(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := k.Store().Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "small"}},
		metav1.CreateOptions{}); err != nil {
		t.Errorf("after compaction and defragmentation: %v, want no error", err)
	}
	if _, err := k.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil {
		t.Errorf("readyz after compaction and defragmentation: %v, want no error", err)
	}
}

// A watcher that was away while the server started again resumes from its revision: the cache is
// new, etcd's history is not. What was compacted is 410.
// row: API-10
func TestWatchResumesOverARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, err := startServer(t, dir, func(*apiserver.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for n := range 3 {
		o, err := k.client.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", n)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = o.ResourceVersion
		}
	}
	k.stop()
	if k, err = startServer(t, dir, func(*apiserver.Config) {}); err != nil {
		t.Fatal(err)
	}
	names := func() (out []string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w, err := k.client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: first})
		if err != nil {
			return []string{err.Error()}
		}
		defer w.Stop()
		for e := range w.ResultChan() {
			o, ok := e.Object.(*corev1.ConfigMap)
			if !ok {
				return append(out, fmt.Sprint(e.Object))
			}
			if out = append(out, string(e.Type)+" "+o.Name); len(out) == 2 {
				return out
			}
		}
		return out
	}
	if got := fmt.Sprint(names()); got != "[ADDED c-1 ADDED c-2]" {
		t.Errorf("resumed from %s: %s, want \"[ADDED c-1 ADDED c-2]\"", first, got)
	}
	if _, err := k.Store().Compact(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names()); !strings.Contains(got, "too old") {
		t.Errorf("resumed from before the compaction: %s", got)
	}
}
