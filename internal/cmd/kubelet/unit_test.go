package kubelet

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
)

// row: KSL-01
//
// The unit file that ships starts this program with flags it knows, starts it again whenever it
// ends, and ends nothing else with it.
func TestUnitFile(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/examples/kubelet.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := "\n" + string(raw)
	if printed := printedUnit(t, "--kubeconfig", "/etc/kubernetes/kubelet.conf", "--bootstrap-kubeconfig",
		"/etc/kubernetes/bootstrap-kubelet.conf", "--config", "/var/lib/kubelet/config.yaml"); printed != string(raw) {
		t.Errorf("gantry kubelet --print-unit prints another one:\n%s", printed)
	}
	for _, line := range []string{"[Unit]", "[Service]", "[Install]", "Restart=always", "KillMode=process",
		"Delegate=yes", "WantedBy=multi-user.target"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	_, start, ok := strings.Cut(unit, "\nExecStart=/opt/gantry/bin/gantry ")
	if !ok {
		t.Fatal("ExecStart is missing")
	}
	start, _, _ = strings.Cut(start, "\n")
	c, rest, err := cli.Root(cli.IO{}, New(cli.IO{})).Find(strings.Fields(start))
	if err != nil || c.Name() != "kubelet" {
		t.Fatalf("%v: got %v, want no error and c.Name() kubelet", c, err)
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Error(err)
	}
	if got := c.Flags().Lookup("kubeconfig").Value.String(); got != "/etc/kubernetes/kubelet.conf" {
		t.Errorf("kubeconfig: got %q, want %q", got, "/etc/kubernetes/kubelet.conf")
	}
}

// printedUnit is what gantry kubelet --print-unit says for these flags, as if the program were
// where the release puts it.
func printedUnit(t *testing.T, flags ...string) string {
	t.Helper()
	var out bytes.Buffer
	streams := cli.IO{Out: &out, Err: io.Discard}
	c := cli.Root(streams, WithUnit(streams, New(streams)))
	c.SetArgs(append([]string{"kubelet", "--print-unit"}, flags...))
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	program, err := ownProgram()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(out.String(), "ExecStart="+program, "ExecStart=/opt/gantry/bin/gantry", 1)
}

// systemd finds nothing wrong with the unit, and the words of the command arrive as they were
// given.
//
// row: KSL-01
func TestPrintedUnit(t *testing.T) {
	text := printedUnit(t, "--node-labels", "a=b", "--register-with-taints", "x=y:NoSchedule", "--register-node=false",
		"--data-dir", "/var/lib/my gantry", "--node-ip", "192.0.2.1")
	_, start, _ := strings.Cut(text, "ExecStart=")
	start, _, _ = strings.Cut(start, "\n")
	if want := `/opt/gantry/bin/gantry kubelet --data-dir "/var/lib/my gantry" --node-ip 192.0.2.1 --node-labels a=b ` +
		`--register-node=false --register-with-taints x=y:NoSchedule`; start != want {
		t.Errorf("got %s, want %s", start, want)
	}
	if got := unitQuote(`50% of $HOME`); got != `"50%% of $$HOME"` {
		t.Errorf("got %s, want %s", got, `"50%% of $$HOME"`)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	at := filepath.Join(t.TempDir(), "kubelet.service")
	if err := os.WriteFile(at, []byte(strings.Replace(text, "/opt/gantry/bin/gantry", "/bin/true", 1)), 0o644); err !=
		nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", at).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "kubelet.service") {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}
