package dashboard

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// axeVersion is the version of axe-core that audits the page.
const axeVersion = "4.14.1"

// axe is the text of axe-core, which npm brings; the test is skipped where it cannot be had.
func axe(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "build", "axe")
	file := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if raw, err := os.ReadFile(file); err == nil {
		return string(raw)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("npm", "install", "--prefix", dir, "--no-save", "--ignore-scripts", "--no-audit",
		"--no-fund",
		"axe-core@"+axeVersion).
		CombinedOutput()
	if err != nil {
		t.Skipf("the audit of accessibility needs axe-core by npm: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every view passes axe-core's audit, light and dark.
func TestAccessibility(t *testing.T) {
	text := axe(t)
	c := cluster(t)
	b := newTab(t, serve(t, c), 1280, 900)
	b.enter(admin)
	create(t, c, pod("web-1", "web", "100m"), pod("crash", "crash", "50m"), pod("huge", "web", "500"))
	b.until("a ready Pod", blocks("ready")+" === 1")
	b.run(script(text))
	for _, theme := range []string{"light", "dark"} {
		b.run(script(fmt.Sprintf("document.documentElement.dataset.theme = %q", theme)))
		for _, v := range []struct{ hash, wait string }{
			{"#/now", "default/huge"}, {"#/why/default/pod/huge", "What you can do"}, {"#/why/default/pod/web-1",
				"board"},
			{"#/life/default/web-1", "RunPodSandbox"}, {"#/whatif/probes", "18 × 5 s = 90 s"},
			{"#/whatif/drain?alone=are+evicted", "done after"}, {"#/whatif/drain?nodes=none", "none"},
			{"#/whatif/eviction", "nobody goes within"},
			{"#/whatif/size", "KubeletConfiguration"},
			{"#/packet?from=pod%2Fdefault%2Fweb-1&to=service%2Fdefault%2Fkubernetes%3A443", "endpoint"},
		} {
			b.view(v.hash)
			b.text(v.wait)
			b.run(script(`for (const d of document.querySelectorAll('details')) d.open = true`))
			found := value[[]string](b, `axe.run(document).then((r) => r.violations.map((v) =>
				v.id + ': ' + v.help + ' ' + v.nodes.map((n) => n.html.slice(0,
					160) + ' ' + n.failureSummary).slice(0, 3).join(' | ')))`)
			if len(found) > 0 {
				t.Errorf("got %s, %s: %s", v.hash, theme, strings.Join(found, "\n"))
			}
		}
	}
}
