package kubelet_test

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// hangingMounts is a mount below a Pod's directory that cannot be taken off before the test lets
// it.
type hangingMounts struct {
	mount.DirMounter
	unblock chan struct{}
	mu      sync.Mutex
	at      string
}

func (m *hangingMounts) MountPoints(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at != "" && strings.Contains(dir, "uid-p") {
		return []string{dir}, nil
	}
	return nil, nil
}

func (m *hangingMounts) Unmount(string) error {
	<-m.unblock
	m.mu.Lock()
	m.at = ""
	m.mu.Unlock()
	return nil
}

// logBuffer is a log in memory.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *logBuffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *logBuffer) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// klogLine is what tools that read logs of Kubernetes expect: I0501 09:14:22.881000 4 file.go:225]
// "Message" key="value".
var klogLine = regexp.MustCompile(
	`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.]+\.go:\d+\] "[^"]+"( [\w/.]+=("([^"\\]|\\.)*"|\S+))*$`)

// lineOf is the first line of a log that has the text; empty when none has.
func lineOf(log, text string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Somebody who reads the kubelet's log at its usual verbosity sees what a deletion waits for: the
// hook, then the unmount.
//
// row: OPS-09
// row: OPS-10
func TestLogNamesWhatADeletionWaitsFor(t *testing.T) {
	log := &logBuffer{}
	klog.LogToStderr(false)
	klog.SetOutput(log)
	defer func() {
		klog.Flush()
		klog.LogToStderr(true)
	}()
	runTest(t, func(r *rig) {
		r.stop()
		held := &hangingMounts{unblock: make(chan struct{}), at: "x"}
		r.with = func(o *kubelet.Options) { o.Dependencies.Mounts = held }
		r.start()
		c := scriptContainer("app", runs)
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 8}}}
		p := pod("p", c)
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		r.create(p)
		r.phase("p", v1.PodRunning)
		r.delete("p", 30)
		r.advance(4 * time.Second)
		klog.Flush()
		if line := lineOf(log.String(), `"Waiting for the preStop hook"`); !strings.Contains(line, `container="app"`) ||
			!strings.Contains(line, `pod="default/p"`) || strings.Contains(log.String(), "hook is over") {
			t.Errorf("the log does not tell of the hook: %q in\n%s", line, log.String())
		}
		r.advance(30 * time.Second)
		klog.Flush()
		if s := log.String(); !strings.Contains(s, `"The preStop hook is over"`) {
			t.Errorf("the log does not tell of the hook's end:\n%s", s)
		}
		for text, step := range map[string]string{
			"The Pod is stuck":         `path="SyncTerminatedPod" step="release with logs"`,
			"A step of a volume hangs": `step="removal of the Pod's volumes"`,
		} {
			if line := lineOf(log.String(), `"`+text+`"`); !strings.Contains(line, `pod="default/p"`) ||
				!strings.Contains(line, step) {
				t.Errorf("the log does not tell of the unmount by %q: got %s, want %s", text, line, step)
			}
		}
		for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
			if !klogLine.MatchString(line) {
				t.Errorf("no line of klog: %s", line)
			}
		}
		close(held.unblock)
		r.advance(2 * time.Minute)
		r.expectPodGone("p")
	})
}
