package options

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/cli"
)

func TestOneInstancePerDataDirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockDataDir(dir)
	var b bytes.Buffer
	cli.Report(&b, err)
	if got := b.String(); !strings.Contains(got, "in use by process") || !strings.Contains(got, "--data-dir") {
		t.Error(got)
	}
	first.Release()
	second, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	second.Release()
}

func TestPlaceRefusesWhatCannotBe(t *testing.T) {
	for want, set := range map[string]func(*Instance){
		"--node-name":                func(p *Instance) { p.NodeName = "A_b" },
		"--node-ip":                  func(p *Instance) { p.NodeIP = "nowhere" },
		"--bind-address":             func(p *Instance) { p.BindAddress = "all" },
		"--secure-port":              func(p *Instance) { p.SecurePort = 70000 },
		"--service-cluster-ip-range": func(p *Instance) { p.ServiceCIDR = "10.96" },
	} {
		p := Instance{DataDir: t.TempDir(), NodeName: "n"}
		set(&p)
		err := p.Complete()
		if !cli.IsUsageError(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a usage error with %s", err, want)
		}
	}
}

// The API server listens on 6443 of every address unless flags say otherwise.
//
// row: API-17
func TestThePortOfTheAPIServer(t *testing.T) {
	for args, want := range map[string]string{"": "0.0.0.0 6443", "--secure-port=7443": "0.0.0.0 7443",
		"--bind-address=127.0.0.1": "127.0.0.1 6443"} {
		var p Instance
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		p.ServerFlags(f)
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.BindAddress, " ", p.SecurePort); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}
