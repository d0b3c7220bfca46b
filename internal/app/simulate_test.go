package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/dashboard"
)

// A simulation of the page is a process that gets the copy on its standard input and no credentials
// of this process; what it refuses is a usage error, and it ends when nobody waits.
func TestSimulationsRunApart(t *testing.T) {
	script := filepath.Join(t.TempDir(), "gantry")
	text := `#!/bin/sh
[ "$3 $4 $5 $6 $7 $8" = "--from=- --output=json --keep=false --force -- node/a" ] || { echo "gantry: got $*" >&2; exit 2; }
[ -z "$KUBECONFIG" ] || { echo "gantry: has credentials" >&2; exit 2; }
case $(cat) in
refuse) echo "gantry: there is no node a" >&2; exit 1;;
wait) exec sleep 600;;
*) echo '{"verb":"drain","target":["node/a"]}';;
esac
`
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "/secret")
	call := dashboard.SimulateCall{Verb: "drain", Flags: []string{"--force"}, Names: []string{"node/a"}}
	f, err := simulateApart(t.Context(), script, bytes.NewBufferString("copy"), call)
	if err != nil || f.Verb != "drain" {
		t.Fatalf("got %v, %v", f, err)
	}
	_, err = simulateApart(t.Context(), script, bytes.NewBufferString("refuse"), call)
	if !cli.IsUsageError(err) || strings.TrimSpace(err.Error()) != "there is no node a" {
		t.Errorf("got %v, want what the simulation refuses", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = simulateApart(ctx, script, bytes.NewBufferString("wait"), call)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v after nobody waited", err)
	}
}
