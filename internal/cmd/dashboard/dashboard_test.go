package dashboard

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/test/kubeconfig"
	"github.com/gantry-project/gantry/testcluster"
)

func run(ctx context.Context, out io.Writer, args ...string) error {
	streams := cli.IO{Out: out, Err: out}
	root := cli.Root(streams, New(streams))
	root.SetArgs(append([]string{"dashboard"}, args...))
	return root.ExecuteContext(ctx)
}

// With --serve any cluster has the page: the printed address opens a session of the kubeconfig's
// user.
func TestServe(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes())
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, write, "--serve", "--open=false", "--kubeconfig", kubeconfig.Of(t, c.Config))
		_ = write.Close()
		ended <- err
	}()
	line := make([]byte, 200)
	n, err := read.Read(line)
	if err != nil {
		t.Fatalf("got %v, %v, want no error", err, <-ended)
	}
	found := regexp.MustCompile(`^(https://127\.0\.0\.1:\d+)/#token=(\w+)\n$`).FindStringSubmatch(string(line[:n]))
	if found == nil {
		t.Fatalf("printed %q", line[:n])
	}
	browser := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it signed its certificate itself
	res, err := browser.Post(found[1]+"/api/session", "application/json", strings.NewReader(`{"token":"`+found[2]+`"}`))
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("got %v, %+v", err, res)
	}
	_ = res.Body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, found[1]+"/api/session", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(res.Cookies()[0])
	if res, err = browser.Do(req); err != nil {
		t.Fatal(err)
	}
	var got struct{ User, Namespace string }
	err = json.NewDecoder(res.Body).Decode(&got)
	_ = res.Body.Close()
	if err != nil || got.User != "kubernetes-admin" || got.Namespace != "default" {
		t.Errorf("got %+v, %v", got, err)
	}
	browser.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v, want no error", err)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ args, says string }{
		{"--port 70000 --serve", "--port 70000: must be between 1 and 65535"},
		{"--serve --address 127.0.0.1:1", "exclude each other"},
		{"--address 192.0.2.1:6480", "must be 127.0.0.1:PORT"},
		{"--address evil.example:6480", "must be 127.0.0.1:PORT"},
		{"--address 6480", "must be 127.0.0.1:PORT"},
		{"--address 127.0.0.1:1", "no page answers at 127.0.0.1:1"},
		{"--serve", "connection refused"},
		{"now", "unknown command"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), &out, append(strings.Fields(v.args), "--kubeconfig", file)...)
		if err == nil || !strings.Contains(err.Error(), v.says) {
			t.Errorf("dashboard %s: got %v, want %q", v.args, err, v.says)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, "--kubeconfig", filepath.Join(dir, "none")); err == nil ||
		!strings.Contains(err.Error(), "no API server to ask") {
		t.Errorf("without a kubeconfig: %v", err)
	}
}

// Credentials are shown to a server of the cluster's authority only, and without a proxy between.
func TestCredentialsAreShownToTheClusterOnly(t *testing.T) {
	shown := 0
	page := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer secret" {
			shown++
		}
		_, _ = w.Write([]byte(`{"token":"T"}`))
	}))
	defer page.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: page.Certificate().Raw})
	proxied := 0
	for name, c := range map[string]struct {
		config rest.TLSClientConfig
		shown  int
		words  string // of the error
	}{
		"of the authority":  {rest.TLSClientConfig{CAData: authority, ServerName: "example.com"}, 1, ""},
		"of somebody else":  {rest.TLSClientConfig{ServerName: "example.com"}, 0, "no page answers"},
		"nobody asks whose": {rest.TLSClientConfig{Insecure: true}, 0, "insecure-skip-tls-verify"},
	} {
		shown = 0
		cfg := &rest.Config{Host: "https://cluster.example.com", BearerToken: "secret", TLSClientConfig: c.config,
			Proxy: func(*http.Request) (*url.URL, error) { proxied++; return nil, nil }}
		token, err := askToken(t.Context(), cfg, strings.TrimPrefix(page.URL, "https://"), "shop")
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) ||
			shown != c.shown || (token == "T") != (err == nil) {
			t.Errorf("%s: got token %q, %v, and the credentials were shown %d times", name, token, err, shown)
		}
	}
	if proxied > 0 {
		t.Errorf("the kubeconfig's proxy was asked %d times about an address of this machine", proxied)
	}
}

// What opens the page gets a file that nobody else reads, and that the next call removes.
func TestTheTokenIsInNoArgument(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	bin := t.TempDir()
	arguments := filepath.Join(bin, "arguments")
	opener := []byte("#!/bin/sh\necho \"$*\" > " + arguments + "\n")
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), opener, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("DISPLAY", ":0")
	var last string
	for range 2 {
		(&command{out: io.Discard, open: true}).show(t.Context(), "127.0.0.1:6480", "SECRET")
		raw, err := os.ReadFile(arguments)
		if err != nil || strings.Contains(string(raw), "SECRET") {
			t.Fatalf("the opener got %q, %v", raw, err)
		}
		file := strings.TrimSpace(string(raw))
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), `url=https://127.0.0.1:6480/#token=SECRET"`) {
			t.Errorf("%s is %q, %v", file, text, err)
		}
		for path, mode := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: got %v, %v, want mode %o", path, info.Mode(), err, mode)
			}
		}
		if _, err := os.Stat(last); last != "" && err == nil {
			t.Errorf("%s of the call before is there", last)
		}
		last = file
	}
}
