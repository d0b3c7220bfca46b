package kubectl

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/busybox"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/ports"
)

const image = busybox.Image

// split takes a command line apart; quotes keep a part together.
func split(line string) []string {
	var out []string
	for n, part := range strings.Split(line, "'") {
		if n%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// row: OPS-06
func TestKubectl(t *testing.T) {
	i := busybox.Up(t)
	t.Setenv("KUBE_EDITOR", editor(t))
	for _, c := range commands() {
		play(t, i, c)
	}
	approve(t, i)
	forward(t, i)
	plugin(t, i)
}

// plugin calls gantry as kubectl calls its plugins: by the name kubectl-gantry, with the words
// after its own name, and with the kubeconfig in the environment.
func plugin(t *testing.T, i *instance.Instance) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubectl-gantry")
	if err := os.Symlink(i.Binary(), file); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"why pod/www -n default -o json": `(?s)"subject":.*"state": ?"Ready"`,
		"why -n default": `(?i)in namespace default`, "trace pod/www -n default": `(?s)bound.*ready`} {
		cmd := exec.CommandContext(t.Context(), file, split(args)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+i.Kubeconfig())
		out, err := cmd.CombinedOutput()
		if err != nil || !regexp.MustCompile(want).Match(out) {
			t.Errorf("kubectl gantry %s: got %v and\n%s\nwant %s", args, err, out, want)
		}
	}
}

// editor is a program that edits as a person would: it puts a label in.
func editor(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(file,
		[]byte("#!/bin/sh\nsed -i 's/^    tier: front$/    edited: \"yes\"\\n    tier: front/' \"$1\"\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func play(t *testing.T, i *instance.Instance, c command) {
	t.Helper()
	want := regexp.MustCompile(c.want)
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		stdout, stderr, code := i.Kubectl(ctx, split(c.args)...)
		cancel()
		right := want.MatchString(stdout+stderr) && code == c.code
		if right {
			return
		}
		if err := i.Ended(); err != nil {
			t.Fatalf("kubectl %s: %v", c.args, err)
		}
		if !c.retry || time.Now().After(deadline) {
			t.Errorf("kubectl %s: exit code %d, want %d and %s\n%s%s", c.args, code, c.code, c.want, stdout, stderr)
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
}

// approve signs a client certificate: kubectl certificate approve.
func approve(t *testing.T, i *instance.Instance) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "csr.json")
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	text := fmt.Sprintf(
		`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"ann"},`+
			`"spec":{"signerName":"example.com/own","usages":["client auth"],"request":%q}}`,
		base64.StdEncoding.EncodeToString(raw))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	play(t, i, command{args: "create -f " + file, want: "created"})
	play(t, i, command{args: "certificate approve ann", want: "approved"})
	play(t, i, command{args: "get csr ann", want: "Approved"})
}

// forward reaches a port of a Pod through kubectl port-forward.
func forward(t *testing.T, i *instance.Instance) {
	t.Helper()
	play(t, i, command{args: "run www --image=" + image + " -- httpd -f -p 8080 -h /etc", want: "created"})
	play(t, i, command{args: "wait pod/www --for condition=Ready --timeout 60s", want: "condition met"})
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, i.Binary(), "kubectl", "--kubeconfig", i.Kubeconfig(), "port-forward", "pod/www",
		fmt.Sprintf("%d:8080", port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = cmd.Wait() // killed by us
	}()
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = instance.Poll(wait, 100*time.Millisecond, func() error {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/hostname", port))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", res.Status)
		}
		return nil
	})
	if err != nil {
		t.Errorf("kubectl port-forward: %v", err)
	}
}
