package doctor

import (
	"os"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
)

// The instance that --data-dir names is asked, not the one that $KUBECONFIG or the usual directory
// has; --kubeconfig overrules.
func TestDoctorAsksTheAPIServerOfItsOwnInstance(t *testing.T) {
	dir := t.TempDir()
	own := cli.KubeconfigIn(dir)
	d := &doctorCommand{instance: options.Instance{DataDir: dir}}
	if got := d.kubeconfigPath(true); got != "" {
		t.Errorf("no kubeconfig in the directory: %q, want none", got)
	}
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.kubeconfigPath(true); got != own {
		t.Errorf("--data-dir given: %q, want %q", got, own)
	}
	if got := d.kubeconfigPath(false); got != "" {
		t.Errorf("--data-dir not given: %q, want what every command takes", got)
	}
	d.Kubeconfig = "other"
	if got := d.kubeconfigPath(true); got != "other" {
		t.Errorf("--kubeconfig given: %q, want other", got)
	}
}
