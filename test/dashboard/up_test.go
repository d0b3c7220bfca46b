package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/up"
)

// `gantry up` serves the page, `gantry dashboard` opens it as the kubeconfig's user; the open page
// goes on after Gantry was started anew; --dashboard=false serves none.
func TestUp(t *testing.T) {
	i := up.NewInstance(t)
	up.StartInstance(t, i)
	b := newTab(t, nil, 1000, 700)
	b.open(func() string { // a token is good once
		var address string
		deadline := time.Now().Add(time.Minute)
		for address == "" && time.Now().Before(deadline) { // the page comes a moment after the API server
			out, _, code := i.Gantry(t.Context(), "dashboard", "--open=false", "--kubeconfig", i.Kubeconfig())
			if code == 0 {
				address = strings.TrimSpace(out)
			}
		}
		if !strings.HasPrefix(address, "https://127.0.0.1:") {
			t.Fatalf("gantry dashboard printed %q, want an address of https://127.0.0.1", address)
		}
		return address
	})
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
	up.StartInstance(t, i)
	b.until("it is live again", `document.querySelector('#link[data-live]')`)
	b.until("the node is ready again", `document.querySelector('#main > div').board.nodes.get('node-1')?.ok`)
	if err := i.Stop(); err != nil {
		t.Fatal(err)
	}
	i.Flags("--dashboard=false")
	up.StartInstance(t, i)
	out, errOut, code := i.Gantry(t.Context(), "dashboard", "--open=false", "--kubeconfig", i.Kubeconfig())
	if code == 0 {
		t.Errorf("without a page gantry dashboard printed %q %q", out, errOut)
	}
}
