package why

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// real reports whether the fixture wants a node that runs containers.
func (f Fixture) real() bool { return f.Needs == "runtime" }

// startKubelet writes the kubelet's configuration and serves the images, before Gantry starts.
func (w *Cluster) startKubelet() error {
	w.registries = &registries{dir: filepath.Join(w.Dir, "containerd", "certs.d"), hosts: map[string]*host{}}
	for _, i := range w.f.Images {
		if err := w.registries.push(i); err != nil {
			return err
		}
	}
	if w.f.Config.Kubelet == nil {
		return nil
	}
	c := merge(map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"},
		w.f.Config.Kubelet)
	raw, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	path := filepath.Join(w.Dir, "kubelet.yaml")
	w.Flags("--kubelet-config", path)
	return os.WriteFile(path, raw, 0o600)
}

var forwarding = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:(\d+)`)

// portForward asks for a page of the Pod through `kubectl port-forward`; want is a status code, or
// a part of the words that kubectl prints when it cannot.
func (w *Cluster) portForward(ctx context.Context, object string, port int, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	words := split(object)
	cmd := exec.CommandContext(ctx, w.Binary(), "kubectl", "--kubeconfig", w.Kubeconfig(), "-n", words[len(words)-1],
		"port-forward", words[0], fmt.Sprintf(":%d", port))
	r, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return errors.Join(err, out.Close())
	}
	_ = out.Close() // the command has its own
	said := make(chan string, 100)
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			select {
			case said <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	answer, asked := "", ""
	for line := range said {
		answer += line + "\n"
		if m := forwarding.FindStringSubmatch(line); m != nil && asked == "" {
			asked = fetchPage(ctx, "http://127.0.0.1:"+m[1]+"/ok")
			if asked == want {
				break
			}
		}
		if strings.Contains(answer, want) {
			asked = want
			break
		}
	}
	cancel()
	_ = cmd.Wait() // it was ended
	if asked != want {
		return fmt.Errorf("port-forward to %s %d gave %q, wanted %s: %s", object, port, asked, want, answer)
	}
	return nil
}

// fetchPage gives the status code of a page, or the error in words.
func fetchPage(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	res, err := (&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err.Error()
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return fmt.Sprint(res.StatusCode)
}
