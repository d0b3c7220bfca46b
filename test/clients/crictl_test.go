package clients

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/test/busybox"
	"github.com/gantry-project/gantry/test/expect"
)

// both is crictl, and `gantry cri` which knows its commands, on one socket.
type both struct {
	*testing.T
	crictl, gantry []string
}

// say runs a command and returns what it printed.
func (b both) say(program []string, args ...string) string {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), program[0], append(slices.Clone(program[1:]), args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s %s: got %v, want no error\n%s%s", filepath.Base(program[0]), strings.Join(args, " "), err, &out,
			&errs)
	}
	return out.String()
}

var gaps = regexp.MustCompile(`\s{2,}`)

// rows are a table's cells by line, sorted but for the head, without the columns that hold times
// and amounts.
func rows(text string, without ...string) [][]string {
	var out [][]string
	var left []int
	text = strings.TrimPrefix(text, "\x1b[2J\x1b[H") // crictl's stats clear the screen
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		cells := gaps.Split(strings.TrimSpace(line), -1)
		if i == 0 {
			for at, name := range cells {
				if slices.Contains(without, name) {
					left = append(left, at)
				}
			}
		} else {
			for _, at := range left {
				if at < len(cells) {
					cells[at] = ""
				}
			}
		}
		out = append(out, cells)
	}
	slices.SortFunc(out[1:], slices.Compare)
	return out
}

// alike runs one command of both and compares the tables.
func (b both) alike(without []string, args ...string) [][]string {
	b.Helper()
	theirs, ours := rows(b.say(b.crictl, args...), without...), rows(b.say(b.gantry, args...), without...)
	if !reflect.DeepEqual(theirs, ours) {
		b.Errorf("%s: crictl says\n%q\ngantry cri\n%q", strings.Join(args, " "), theirs, ours)
	}
	return theirs
}

// crictl itself on the socket of Gantry's containerd: what it lists is what `gantry cri` lists, and
// what it stops the kubelet sees and starts again.
//
// row: CRI-29
// row: CRI-30
// row: CRI-31
func TestCrictl(t *testing.T) {
	i := busybox.Up(t)
	b := both{T: t, gantry: []string{i.Binary(), "cri", "--data-dir", i.Dir}}
	program := filepath.Join(t.TempDir(), "crictl")
	b.say([]string{"go"}, "build", "-ldflags", "-s -w", "-o", program, "sigs.k8s.io/cri-tools/cmd/crictl")
	socket := strings.TrimSpace(b.say(b.gantry, "endpoint"))
	b.crictl = []string{program, "--runtime-endpoint", socket, "--image-endpoint", socket, "--timeout", "30s"}

	cfg, err := i.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := space(t, cfg, "crictl")
	b.create(c, "web", corev1.RestartPolicyAlways, "echo hello from app; trap 'exit 0' TERM; sleep 3600 & wait")
	b.create(c, "ended", corev1.RestartPolicyNever, "exit 3")
	status := func(pod string) corev1.ContainerStatus {
		p, err := c.CoreV1().Pods("crictl").Get(t.Context(), pod, metav1.GetOptions{})
		if err != nil || len(p.Status.ContainerStatuses) == 0 {
			return corev1.ContainerStatus{}
		}
		return p.Status.ContainerStatuses[0]
	}
	expect.Eventually(t, "the Pods run and end",
		func() bool { return status("web").State.Running != nil && status("ended").State.Terminated != nil })
	expect.Eventually(t, "the sandbox of the one that ended is stopped",
		func() bool { return strings.Contains(b.say(b.gantry, "pods"), "NotReady") })
	id := strings.TrimPrefix(status("web").ContainerID, "containerd://")

	if got := b.alike([]string{"CREATED"}, "pods"); !slices.Equal(got[0], []string{"POD ID", "CREATED", "STATE", "NAME",
		"NAMESPACE", "ATTEMPT", "RUNTIME"}) || len(got) != 3 {
		t.Errorf("pods: %q", got)
	}
	if got := b.alike([]string{"CREATED"}, "ps"); len(got) != 2 || !slices.Contains(got[1], id[:13]) {
		t.Errorf("ps: %q, want a row of %s", got, id)
	}
	if got := b.alike([]string{"CREATED"}, "ps", "-a"); len(got) != 3 {
		t.Errorf("ps -a: %q, want 3 of them", got)
	}
	if got := b.alike(nil, "images"); len(got) < 2 {
		t.Errorf("images: %q", got)
	}
	if got := b.alike([]string{"CPU %", "MEM", "DISK", "INODES", "SWAP"}, "stats"); len(got) != 2 {
		t.Errorf("stats: %q, want 2 of them", got)
	}
	theirs, ours := inspected(b.say(b.crictl, "inspect", id)), inspected(b.say(b.gantry, "inspect", id))
	if theirs["id"] != id || !reflect.DeepEqual(theirs, ours) {
		t.Errorf("inspect: crictl says\n%v\ngantry cri\n%v", theirs, ours)
	}
	for _, program := range [][]string{b.crictl, b.gantry} {
		if got := b.say(program, "logs", id); got != "hello from app\n" {
			t.Errorf("%s logs: %q, want \"hello from app\\n\"", program[0], got)
		}
		if got := b.say(program, "exec", id, "sh", "-c", "echo inside; hostname"); got != "inside\nweb\n" {
			t.Errorf("%s exec: %q, want \"inside\\nweb\\n\"", program[0], got)
		}
	}
	b.say(b.crictl, "stop", "--timeout", "5", id)
	expect.Eventually(t, "the kubelet starts what crictl stopped", func() bool {
		s := status("web")
		return s.RestartCount == 1 && s.State.Running != nil && s.ContainerID != "containerd://"+id
	})
}

// inspected is what an inspection says of the container, without what the programs add to the
// runtime's answer, empty fields, and times, which crictl words anew.
func inspected(text string) map[string]any {
	var out struct{ Status map[string]any }
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return map[string]any{"error": err.Error()}
	}
	for _, name := range []string{"createdAt", "startedAt", "finishedAt"} {
		delete(out.Status, name)
	}
	prune(out.Status)
	return out.Status
}

// prune takes empty fields away.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if field == nil {
				delete(v, name)
			}
			prune(field)
		}
	case []any:
		for _, x := range v {
			prune(x)
		}
	}
}

func (b both) create(c kubernetes.Interface, name string, policy corev1.RestartPolicy, script string) {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		RestartPolicy: policy, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{Name: "app", Image: "docker.io/library/busybox:1.37",
			Command: []string{"sh", "-c", script}}},
	}}
	if _, err := c.CoreV1().Pods("crictl").Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}
