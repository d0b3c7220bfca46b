package kinds

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// TestMain has the collector wait for more: replays make much and keep little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// known are requests that are answered otherwise, by name, with the reason.
func known(t *testing.T) map[string]string {
	f, err := os.Open("testdata/unequal.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, reason := map[string]string{}, ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch l := lines.Text(); {
		case strings.HasPrefix(l, "# "):
			reason = l[2:]
		case l != "":
			out[l] = reason
		}
	}
	return out
}

// mostDifferences are printed of a group; of a random mutation the first one tells enough.
func mostDifferences() int {
	if os.Getenv("GANTRY_MUTANT") != "" {
		return 1
	}
	return 40
}

// replayGroup replays the recordings of a group: what was drawn at random and, over an empty store
// again, what was recorded beside it.
func replayGroup(t *testing.T, group string) {
	t.Helper()
	listed, shown := known(t), 0
	for _, file := range []string{group, group + "-wide"} {
		all, err := Read("testdata/" + file + ".jsonl.gz")
		if os.IsNotExist(err) && file != group {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		replayFile(t, all, listed, &shown)
	}
}

// replayFile replays the recordings of a file; shown counts the differences that were printed.
func replayFile(t *testing.T, all []Recording, listed map[string]string, shown *int) {
	t.Helper()
	r, err := NewRegistry(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	write := os.Getenv("GANTRY_UNEQUAL")
	asked, differ := 0, 0
	for i := range all {
		results, err := r.Replay(&all[i])
		if err != nil {
			t.Fatalf("%s %s: got error %v, want none", all[i].What, all[i].Path, err)
		}
		for _, c := range results {
			asked++
			reason, ok := listed[c.Name]
			switch {
			case c.Difference == "" && !ok:
				continue
			case c.Difference == "":
				t.Errorf("%s: equal, and listed as unequal (%s)", c.Name, reason)
			case ok:
				differ++
				continue
			case write != "":
				appendLine(t, write, c.Name+"\t"+c.Difference)
				differ++
				continue
			default:
				t.Errorf("%s is answered otherwise than by upstream, want the same:\n%s", c.Name, c.Difference)
			}
			if *shown++; *shown >= mostDifferences() {
				t.Fatal("and more")
			}
		}
	}
	t.Logf("%d requests, %d as listed in unequal.txt", asked, differ)
}

func appendLine(t *testing.T, file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, strings.ReplaceAll(line, "\n", "\t"))
}

func TestAdmissionRegistration(t *testing.T) { replayGroup(t, "admissionregistration") }
func TestApps(t *testing.T)                  { replayGroup(t, "apps") }
func TestAutoscaling(t *testing.T)           { replayGroup(t, "autoscaling") }
func TestBatch(t *testing.T)                 { replayGroup(t, "batch") }
func TestCertificates(t *testing.T)          { replayGroup(t, "certificates") }
func TestCoordination(t *testing.T)          { replayGroup(t, "coordination") }
func TestCore(t *testing.T)                  { replayGroup(t, "core") }
func TestDiscovery(t *testing.T)             { replayGroup(t, "discovery") }
func TestEvents(t *testing.T)                { replayGroup(t, "events") }
func TestFlowControl(t *testing.T)           { replayGroup(t, "flowcontrol") }
func TestNetworking(t *testing.T)            { replayGroup(t, "networking") }
func TestNode(t *testing.T)                  { replayGroup(t, "node") }
func TestNodes(t *testing.T)                 { replayGroup(t, "nodes") }

// TestPods is one of the groups: what is left out, refused, warned of and shown as by upstream.
//
// row: API-05
// row: API-21
// row: API-25
// row: API-26
// row: API-27
// row: API-28
// row: API-29
// row: API-36
// row: API-37
// row: API-40
// row: API-44
func TestPods(t *testing.T)             { replayGroup(t, "pods") }
func TestServices(t *testing.T)         { replayGroup(t, "services") }
func TestPolicy(t *testing.T)           { replayGroup(t, "policy") }
func TestRBAC(t *testing.T)             { replayGroup(t, "rbac") }
func TestResource(t *testing.T)         { replayGroup(t, "resource") }
func TestScheduling(t *testing.T)       { replayGroup(t, "scheduling") }
func TestStorage(t *testing.T)          { replayGroup(t, "storage") }
func TestStorageMigration(t *testing.T) { replayGroup(t, "storagemigration") }
