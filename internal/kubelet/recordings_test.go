package kubelet_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet"
)

// recordings are what upstream's kubelet did with Pods; see the README there.
const recordings = "../../test/recordings/pods"

// differs are the cases in which Gantry's sequence of states is not upstream's, and why.
var differs = map[string]string{
	"deadline-crashlooping":        "the container's real end stays in the status; upstream calls it unknown",
	"phase-exit1-always-loop":      "a back-off of 10 s ends after 10 s; upstream looks again only after 13 s",
	"term-delete-in-image-backoff": "the fake runtime words a missing image differently",
}

// races are the cases that are equal or not as goroutines run, and why.
var races = map[string]string{
	"rules-container-always": "a status between the deletion and the last one only when the deletion is seen first, " +
		"as nothing runs",
	"poststart-fails": "the fake shell may be stopped before it has set its trap",
}

type recordedCase struct {
	Namespace string                       `json:"namespace"`
	Steps     []map[string]json.RawMessage `json:"steps"`
}

func TestRecordings(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(recordings, "*"))
	if err != nil || len(dirs) == 0 {
		t.Skip("no recordings here")
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		area := areaOf(dir)
		if !map[string]bool{"phases": true, "init": true, "hooks": true, "termination": true, "deadlines": true,
			"sidecars": true, "restart-rules": true, "runtime": true, "env": true, "ephemeral": true, "probes": true,
			"oom": true, "conditions": true, "resize": true, "resources": true, "downward": true}[area] {
			continue
		}
		t.Run(name, func(t *testing.T) { replay(t, dir) })
	}
}

var areaLine = regexp.MustCompile(`(?m)^area: (.*)$`)

func areaOf(dir string) string {
	raw, _ := os.ReadFile(filepath.Join(dir, "case.yaml"))
	if m := areaLine.FindSubmatch(raw); m != nil {
		return string(m[1])
	}
	return ""
}

func replay(t *testing.T, dir string) {
	raw, err := os.ReadFile(filepath.Join(dir, "case.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c recordedCase
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	want := recordedStates(t, filepath.Join(dir, "history.jsonl"))
	if len(want) == 0 {
		t.Skip("nothing was recorded")
	}
	for _, s := range c.Steps {
		for verb := range s {
			if !map[string]bool{"create": true, "wait": true, "sleep": true, "delete": true, "describe": true,
				"logs": true, "task-kill": true, "patch": true}[verb] ||
				verb == "patch" && !strings.Contains(string(s[verb]), `"subresource":"resize"`) {
				t.Skipf("step %s", verb)
			}
		}
	}
	if strings.Contains(string(raw), "agnhost") || unplayable.MatchString(filepath.Base(dir)) {
		t.Skip("needs a program that the fake runtime does not have")
	}
	runTest(t, func(r *rig) {
		r.stop()
		r.with = func(o *kubelet.Options) { o.PodStatus.V136 = true } // of which the recordings are
		r.start()
		for _, e := range startErrors {
			if e.in == filepath.Base(dir) {
				r.fake.On(crifake.Match{Container: e.container}, crifake.Script{StartError: e.text})
			}
		}
		r.fake.AddImage(crifake.Image{Names: []string{"registry.example/busybox:1.37"}})
		for method, took := range map[string]string{"RunPodSandbox": "100ms", "CreateContainer": "6ms",
			"StartContainer": "60ms", "StopPodSandbox": "50ms"} {
			if err := r.fake.Fault(method, "delay("+took+")"); err != nil {
				t.Fatal(err)
			}
		}
		recording := r.recordStates(c.Namespace)
		p := &stepRunner{rig: r, ns: c.Namespace}
		for _, s := range c.Steps {
			p.step(s)
		}
		p.cleanup()
		got := recording.states()
		ok, text := compare(want, got)
		if text := compareEvents(filepath.Join(dir, "events.jsonl"), r.events); text != "" &&
			eventsDiffer[filepath.Base(dir)] == "" {
			t.Errorf("events:\n%s", text)
		}
		why, known := differs[filepath.Base(dir)]
		if ok && known {
			t.Errorf("equal now: strike it from the list of differences (%s)", why)
		}
		if !ok && !known && races[filepath.Base(dir)] == "" {
			t.Errorf("\n%s\nevents:\n%s", text, r.events.text())
		}
	})
}

const runc = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create " +
	"failed: unable to start container process: error during container init: "

// unplayable cases need a kernel, a network, or a node with a disk.
var unplayable = regexp.MustCompile(
	"^oom-|memory-down-below-use|downward-env-resources|-tcp-|sandbox-killed|own-signal|" +
		"http-refused|workingdir|unscheduled")

// startErrors are what the runtime said of commands it could not start.
var startErrors = []struct{ in, container, text string }{
	{"init-bad-command", "i1", runc + `exec: "nosuchbinary": executable file not found in $PATH`},
	{"phase-bad-command-never", "c", runc + `exec: "/no/such/file": stat /no/such/file: no such file or directory`},
	{"phase-command-not-executable", "c", runc + `exec: "/etc": is a directory`},
}

// stepRunner runs recorded steps.
type stepRunner struct {
	*rig
	ns   string
	uids int
}

func (p *stepRunner) step(s map[string]json.RawMessage) {
	for verb, raw := range s {
		switch verb {
		case "create":
			p.createAll(raw)
		case "sleep":
			n, _ := strconv.ParseFloat(string(raw), 64)
			p.advance(time.Duration(n * float64(time.Second)))
		case "wait":
			var w struct {
				Pod, Until string
				Timeout    float64
			}
			_ = json.Unmarshal(raw, &w)
			for end := time.Now().Add(time.Duration(w.Timeout * float64(time.Second))); time.Now().Before(
				end); p.advance(50 * time.Millisecond) {
				if until(p, w.Pod, w.Until) {
					break
				}
			}
		case "delete":
			var d struct {
				Name  string
				Grace *int64
			}
			_ = json.Unmarshal(raw, &d)
			p.remove(d.Name, d.Grace)
		case "patch":
			p.patch(raw)
		case "task-kill":
			var k struct{ Pod, Container string }
			_ = json.Unmarshal(raw, &k)
			if k.Container == "" {
				p.killSandbox(k.Pod)
			} else {
				p.t.Skip("task-kill of a container")
			}
		}
	}
}

func (p *stepRunner) createAll(raw json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, o := range list {
		var meta metav1.TypeMeta
		_ = json.Unmarshal(o, &meta)
		ctx := context.Background()
		switch meta.Kind {
		case "Pod":
			pod := &v1.Pod{}
			if err := json.Unmarshal(o, pod); err != nil {
				p.t.Fatal(err)
			}
			defaults(pod)
			p.uids++
			pod.Namespace, pod.UID, pod.Generation, pod.Spec.NodeName = p.ns, types.UID(fmt.Sprintf("<uid%d>", p.uids)),
				1, "n1"
			pod.Status = v1.PodStatus{Phase: v1.PodPending,
				Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}}
			if _, err := p.api.CoreV1().Pods(p.ns).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				p.t.Fatal(err)
			}
		case "ConfigMap":
			cm := &v1.ConfigMap{}
			_ = json.Unmarshal(o, cm)
			_, _ = p.api.CoreV1().ConfigMaps(p.ns).Create(ctx, cm, metav1.CreateOptions{})
		case "Secret":
			s := &v1.Secret{}
			_ = json.Unmarshal(o, s)
			if s.Data == nil {
				s.Data = map[string][]byte{}
			}
			for k, v := range s.StringData {
				s.Data[k] = []byte(v)
			}
			_, _ = p.api.CoreV1().Secrets(p.ns).Create(ctx, s, metav1.CreateOptions{})
		default:
			p.t.Skipf("creates a %s", meta.Kind)
		}
	}
	p.advance(50 * time.Millisecond)
}

// patch resizes a Pod.
func (p *stepRunner) patch(raw json.RawMessage) {
	var c struct {
		Name string
		Body json.RawMessage
	}
	_ = json.Unmarshal(raw, &c)
	ctx := context.Background()
	old, err := p.api.CoreV1().Pods(p.ns).Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	text, _ := json.Marshal(old)
	text, err = strategicpatch.StrategicMergePatch(text, c.Body, v1.Pod{})
	pod := &v1.Pod{}
	if err == nil {
		err = json.Unmarshal(text, pod)
	}
	pod.Generation++
	if err == nil {
		_, err = p.api.CoreV1().Pods(p.ns).Update(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
}

// remove deletes as the API does: at once what is not bound, has ended, or is deleted without
// grace.
func (p *stepRunner) remove(name string, grace *int64) {
	ctx := context.Background()
	pod, err := p.api.CoreV1().Pods(p.ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	g := *pod.Spec.TerminationGracePeriodSeconds
	if grace != nil {
		g = *grace
	}
	if pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		g = 0
	}
	pod = pod.DeepCopy()
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &g
	pod.Generation++
	if _, err := p.api.CoreV1().Pods(p.ns).Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
	if g == 0 {
		_ = p.api.CoreV1().Pods(p.ns).Delete(ctx, name, metav1.DeleteOptions{})
	}
	synctest.Wait()
}

func (p *stepRunner) cleanup() {
	list, _ := p.api.CoreV1().Pods(p.ns).List(context.Background(), metav1.ListOptions{})
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			p.remove(pod.Name, nil)
		}
	}
	p.advance(60 * time.Second)
}

func until(p *stepRunner, name, what string) bool {
	pod, err := p.api.CoreV1().Pods(p.ns).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return what == "gone"
	}
	all := append(append([]v1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	all = append(all, pod.Status.EphemeralContainerStatuses...)
	word, arg, _ := strings.Cut(what, "=")
	switch {
	case what == "ready", what == "unready":
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodReady {
				return (c.Status == v1.ConditionTrue) == (what == "ready")
			}
		}
	case word == "phase":
		return string(pod.Status.Phase) == arg
	case strings.HasPrefix(what, "restarts>"):
		n, _ := strconv.Atoi(arg)
		for _, c := range all {
			if int(c.RestartCount) >= n {
				return true
			}
		}
	case word == "waiting":
		for _, c := range all {
			if w := c.State.Waiting; w != nil && w.Reason == arg {
				return true
			}
		}
	case word == "running", word == "terminated":
		for _, c := range all {
			if c.Name == arg && (word == "running" && c.State.Running != nil ||
				word == "terminated" && c.State.Terminated != nil) {
				return true
			}
		}
	case word == "event":
		reason, n, _ := strings.Cut(arg, ":")
		k, _ := strconv.Atoi(n)
		return p.events.count(" "+reason+": ") >= max(k, 1)
	case word == "cond":
		kind, status, _ := strings.Cut(arg, "=")
		for _, c := range pod.Status.Conditions {
			if string(c.Type) == kind && string(c.Status) == status {
				return true
			}
		}
	}
	return false
}

// stateLog records the states a watch delivers.
type stateLog struct {
	mu   sync.Mutex
	list []string
}

func (r *rig) recordStates(ns string) *stateLog {
	tp := &stateLog{}
	w, err := r.api.CoreV1().Pods(ns).Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	go func() {
		for e := range w.ResultChan() {
			pod := e.Object.(*v1.Pod)
			line := pod.Name + " gone"
			if e.Type != watch.Deleted {
				raw, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
				text, _ := json.Marshal(raw["status"])
				var st map[string]any
				_ = json.Unmarshal(text, &st)
				line = pod.Name + " " + state(st)
			}
			tp.mu.Lock()
			tp.list = append(tp.list, line)
			tp.mu.Unlock()
		}
	}()
	r.t.Cleanup(w.Stop)
	return tp
}

func (t *stateLog) states() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return dedupe(t.list)
}

func recordedStates(t *testing.T, path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			Change, Pod string
			Status      map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		line := row.Pod + " gone"
		if row.Change != "DELETED" {
			line = row.Pod + " " + state(row.Status)
		}
		out = append(out, line)
	}
	return dedupe(out)
}

func dedupe(list []string) (out []string) {
	for _, l := range list {
		if len(out) == 0 || out[len(out)-1] != l {
			out = append(out, l)
		}
	}
	return out
}

// state is what two statuses are compared by: phase, conditions, container states, restart counts,
// with reasons and messages, without times and ids.
func state(s map[string]any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", s["phase"])
	for _, k := range []string{"reason", "message"} {
		if v := s[k]; v != nil && v != "" {
			fmt.Fprintf(&b, " %v", v)
		}
	}
	list, _ := s["conditions"].([]any)
	var conds []string
	for _, c := range list {
		m := c.(map[string]any)
		if m["type"] == "PodScheduled" {
			continue
		}
		conds = append(conds,
			strings.TrimRight(fmt.Sprintf("%v=%v %s%s", m["type"], m["status"], text(m["reason"]), text(m["message"])),
				" "))
	}
	sort.Strings(conds)
	fmt.Fprintf(&b, " {%s}", strings.Join(conds, "; "))
	for _, key := range []string{"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"} {
		list, _ := s[key].([]any)
		for _, c := range list {
			m := c.(map[string]any)
			fmt.Fprintf(&b, " [%v %s last=%s ready=%v started=%v n=%v]", m["name"], cstate(m["state"]),
				cstate(m["lastState"]), m["ready"], m["started"], m["restartCount"])
		}
	}
	return mask(b.String())
}

func text(v any) string {
	if v == nil || v == "" {
		return ""
	}
	return fmt.Sprintf("%v ", v)
}

func cstate(v any) string {
	m, _ := v.(map[string]any)
	for kind, d := range m {
		if d == nil {
			continue
		}
		dm := d.(map[string]any)
		s := kind
		for _, k := range []string{"reason", "exitCode", "message"} {
			if x, ok := dm[k]; ok && x != "" {
				s += fmt.Sprintf(",%v", x)
			}
		}
		return s
	}
	return "-"
}

var ip = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b|<pod-ip\d>`)

func mask(s string) string {
	return ip.ReplaceAllString(s, "IP")
}

// compare reports whether got is want, where either may have seen states that the other merged.
func compare(want, got []string) (bool, string) {
	if fmt.Sprint(want) == fmt.Sprint(got) {
		return true, ""
	}
	var b strings.Builder
	lcs := common(want, got)
	i, j := 0, 0
	for _, l := range append(lcs, "\x00") {
		for ; i < len(want) && want[i] != l; i++ {
			fmt.Fprintf(&b, "- %s\n", want[i])
		}
		for ; j < len(got) && got[j] != l; j++ {
			fmt.Fprintf(&b, "+ %s\n", got[j])
		}
		if l != "\x00" {
			fmt.Fprintf(&b, "  %s\n", l)
			i, j = i+1, j+1
		}
	}
	return len(lcs) == len(want) || len(lcs) == len(got), b.String()
}

func common(a, b []string) []string {
	n := make([][]int, len(a)+1)
	for i := range n {
		n[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				n[i][j] = n[i+1][j+1] + 1
			} else {
				n[i][j] = max(n[i+1][j], n[i][j+1])
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			out = append(out, a[i])
			i, j = i+1, j+1
		case n[i+1][j] >= n[i][j+1]:
			i++
		default:
			j++
		}
	}
	return out
}

// defaults fills in what the API server would, as far as these cases need it.
func defaults(p *v1.Pod) {
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = v1.RestartPolicyAlways
	}
	if p.Spec.TerminationGracePeriodSeconds == nil {
		thirty := int64(30)
		p.Spec.TerminationGracePeriodSeconds = &thirty
	}
	p.Spec.DNSPolicy = v1.DNSDefault
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if len(c.Command) == 3 && !strings.HasPrefix(c.Command[2], "trap") {
				c.Command[2] = "sleep 0.15; " + c.Command[2] // a real process takes its time
			}
			if c.TerminationMessagePath == "" {
				c.TerminationMessagePath = v1.TerminationMessagePathDefault
			}
			if c.TerminationMessagePolicy == "" {
				c.TerminationMessagePolicy = v1.TerminationMessageReadFile
			}
			if c.ImagePullPolicy == "" {
				c.ImagePullPolicy = v1.PullIfNotPresent
			}
			for _, pr := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
				if pr == nil {
					continue
				}
				pr.PeriodSeconds = cmp.Or(pr.PeriodSeconds, 10)
				pr.TimeoutSeconds = cmp.Or(pr.TimeoutSeconds, 1)
				pr.SuccessThreshold = cmp.Or(pr.SuccessThreshold, 1)
				pr.FailureThreshold = cmp.Or(pr.FailureThreshold, 3)
				if pr.HTTPGet != nil && pr.HTTPGet.Scheme == "" {
					pr.HTTPGet.Scheme = v1.URISchemeHTTP
				}
			}
		}
	}
}

// eventsDiffer are the cases whose events are not upstream's, and why.
var eventsDiffer = map[string]string{
	"env-configmap-secret":              "the fake shell has no env: the container runs until it is stopped",
	"env-envfrom-odd-keys":              "the fake shell has no env: the container runs until it is stopped",
	"liveness-command-missing":          "the runtime's text names exec ids",
	"liveness-exec-timeout":             "a probe in flight at the end is not told as a failure",
	"readiness-exec-flip":               "a probe in flight at the end is not told as a failure",
	"sidecar-readiness":                 "a probe in flight at the end is not told as a failure",
	"startup-exec-fail":                 "a probe in flight at the end is not told as a failure",
	"liveness-fail-onfailure-exit0":     "a container that will not be started is not said to back off",
	"phase-container-slow-stop-restart": "timing: the container has just ended when the Pod is deleted",
	"term-delete-in-image-backoff":      "the fake runtime words a missing image differently",
}

// compareEvents compares the sets of events: type, reason, message, field.
func compareEvents(path string, got *eventLog) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	want := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct{ Type, Reason, Message, Source, Object, FieldPath string }
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Source == "kubelet" && strings.HasPrefix(e.Object, "Pod/") {
			want[mask(fmt.Sprintf("%s %s %s %s: %s", strings.TrimPrefix(e.Object, "Pod/"), e.FieldPath, e.Type,
				e.Reason, e.Message))] = true
		}
	}
	var diff []string
	have := map[string]bool{}
	for _, l := range got.list {
		l = mask(l)
		if !want[l] && !have[l] {
			diff = append(diff, "+ "+l)
		}
		have[l] = true
	}
	for l := range want {
		if !have[l] {
			diff = append(diff, "- "+l)
		}
	}
	sort.Strings(diff)
	return strings.Join(diff, "\n")
}
