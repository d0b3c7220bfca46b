package app

import (
	"io"
	"os"
	"strings"
	"testing"
)

// The unit file that ships starts this program with flags it knows, starts it again whenever it ends, and ends nothing else with it.
func TestUnitFile(t *testing.T) {
	raw, err := os.ReadFile("../../docs/examples/kubelet.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := "\n" + string(raw)
	for _, line := range []string{"[Unit]", "[Service]", "[Install]", "Restart=always", "KillMode=process", "Delegate=yes", "WantedBy=multi-user.target"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	_, start, ok := strings.Cut(unit, "\nExecStart=/opt/gantry/bin/gantry ")
	if !ok {
		t.Fatal("ExecStart is missing")
	}
	start, _, _ = strings.Cut(start, "\n")
	c, rest, err := Root(IO{io.Discard, io.Discard}).Find(strings.Fields(start))
	if err != nil || c.Name() != "kubelet" {
		t.Fatalf("%v: %v", c, err)
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Error(err)
	}
	if got := c.Flags().Lookup("kubeconfig").Value.String(); got != "/etc/kubernetes/kubelet.conf" {
		t.Errorf("kubeconfig %q", got)
	}
}
