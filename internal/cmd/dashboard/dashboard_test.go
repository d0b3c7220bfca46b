package dashboard

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
		t.Fatalf("got %v, %v", err, <-ended)
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
		t.Errorf("it ended with %v", err)
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
