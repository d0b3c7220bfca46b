package dashboard

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gantry-project/gantry/test/replay/instance"
)

// up starts the built Gantry, or skips.
func up(t *testing.T) *instance.Instance {
	t.Helper()
	dir, err := filepath.Abs("../../build/bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cni/gantry-cni")); err != nil || os.Geteuid() != 0 ||
		os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("runs real containers: needs root and `make build`")
	}
	i, err := instance.New(instance.Options{Binary: filepath.Join(dir, "gantry"), BinDir: dir, NodeIP: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(i.Report())
		}
		if err := i.Remove(); err != nil {
			t.Error(err)
		}
	})
	return i
}

func startUp(t *testing.T, i *instance.Instance) {
	t.Helper()
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := i.WaitAPI(ctx); err != nil {
		t.Fatal(err)
	}
}

// `gantry up` serves the page, `gantry dashboard` opens it as the kubeconfig's user; the open page
// goes on after Gantry was started anew; --dashboard=false serves none.
func TestUp(t *testing.T) {
	i := up(t)
	startUp(t, i)
	b := newTab(t, nil, 1000, 700)
	var address string
	deadline := time.Now().Add(time.Minute)
	for address == "" && time.Now().Before(deadline) { // the page comes a moment after the API server
		out, _, code := i.Gantry(t.Context(), "dashboard", "--open=false", "--kubeconfig", i.Kubeconfig())
		if code == 0 {
			address = strings.TrimSpace(out)
		}
	}
	if !strings.HasPrefix(address, "https://127.0.0.1:") {
		t.Fatalf("gantry dashboard printed %q", address)
	}
	b.run(chromedp.Navigate(address))
	b.until("the node", `document.querySelector('#main > div')?.board?.nodes.get('node-1')?.ok`)
	b.until("what the node uses", `document.querySelector('#main > div').board.usage.nodes['node-1']?.m > 0`)
	who := value[string](b, `document.getElementById('who').textContent`)
	if !strings.HasPrefix(who, "kubernetes-admin at ") {
		t.Errorf("the page is shown to %q", who)
	}
	b.view("#/whatif/drain")
	b.text("drain node/node-1: done after")
	b.view("#/now")
	if err := i.Stop(); err != nil {
		t.Fatal(err)
	}
	b.text("the server does not answer")
	startUp(t, i)
	b.until("it is live again", `document.querySelector('#link[data-live]')`)
	b.until("the node is ready again", `document.querySelector('#main > div').board.nodes.get('node-1')?.ok`)
	if err := i.Stop(); err != nil {
		t.Fatal(err)
	}
	i.Flags("--dashboard=false")
	startUp(t, i)
	out, errOut, code := i.Gantry(t.Context(), "dashboard", "--open=false", "--kubeconfig", i.Kubeconfig())
	if code == 0 {
		t.Errorf("without a page gantry dashboard printed %q %q", out, errOut)
	}
}
