package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/test/instance"
)

// manyClaims is how many volumes there are.
const manyClaims = 100

// benchClass is the StorageClass of the measurements.
const benchClass = "bench"

// volumeTurns is how often each side is measured.
const volumeTurns = 2

// volumes measures starts of Pods with a volume of a CSI driver on one node, and the same node with
// 100 volumes at rest: Gantry's kubelet and controllers ("gantry") in turns with upstream's
// ("other"), new processes each turn, on one `gantry server` with `gantry scheduler` and one
// containerd. Upstream's have their default configuration, but for their clients' limits of
// requests per second, which are lifted. The driver is local.csi.gantry.dev (directories) with the
// external-provisioner and the external-attacher; its CSIDriver says that volumes are attached.
// Claims are bound before anything is measured.
//
// "create → Running" is from a client's call to its watch's event. Of starts one by one "CRI" and
// "CSI" are what the kubelet's own metrics add up for the calls that make a Pod run, "attacher" is
// from the VolumeAttachment to its status, as a watch sees both, and "own" is the rest: the server,
// the scheduler, and the kubelet and the controllers of the side. "rest" is of 10 Pods with 10
// volumes each, 20 s after the last one ran, over half a minute: processor time, and how often a
// second the process's threads went to sleep.
func (b *bench) volumes(ctx context.Context) ([]result.Figure, error) {
	if err := b.upstreamIsThere(); err != nil {
		return nil, err
	}
	i, err := b.newInstance(instance.Options{Split: true})
	if err != nil {
		return nil, err
	}
	v := &volumeBench{b: b, instance: i, attached: map[string][2]time.Time{},
		of: map[string]*volumeSamples{"gantry": {}, "other": {}}}
	defer v.remove()
	if err := v.begin(ctx); err != nil {
		return nil, err
	}
	turns := b.times(volumeTurns)
	for turn := range turns {
		for _, s := range []struct {
			name  string
			start func(context.Context) error
		}{{"gantry", v.startOwn}, {"other", v.startUpstream}} {
			fmt.Fprintf(os.Stderr, "bench: volumes: turn %d of %d: %s\n", turn+1, turns, s.name)
			v.side, v.turn = s.name, turn
			if err := s.start(ctx); err != nil {
				return nil, fmt.Errorf("%s does not start: %w%s", s.name, err, v.reports())
			}
			if err := v.measure(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w%s", s.name, err, v.reports())
			}
			if err := v.stopSide(); err != nil {
				return nil, err
			}
		}
	}
	return slices.Concat(v.of["gantry"].figures("gantry"), v.of["other"].figures("other")), nil
}

// begin starts API server and scheduler.
func (v *volumeBench) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := v.instance.Start(); err != nil {
		return err
	}
	if err := v.instance.WaitAPI(ctx); err != nil {
		return err
	}
	if err := v.instance.StartRole("scheduler"); err != nil {
		return err
	}
	var err error
	v.cluster, err = connect(ctx, v.instance)
	return err
}

// provision makes driver object, class and claims, and waits until all claims are bound.
func (v *volumeBench) provision(ctx context.Context) error {
	store := v.client.StorageV1()
	if _, err := store.CSIDrivers().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName},
		Spec: storagev1.CSIDriverSpec{AttachRequired: new(true), PodInfoOnMount: new(true)}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := store.StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: benchClass}, Provisioner: driverName,
		Parameters: map[string]string{"type": "directory"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	claims := v.client.CoreV1().PersistentVolumeClaims("default")
	for n := range manyClaims {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName(n)},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: new(benchClass),
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceStorage: resource.MustParse("1Mi")}}}}
		if _, err := claims.Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return instance.Poll(ctx, 200*time.Millisecond, func() error {
		list, err := claims.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, c := range list.Items {
			if c.Status.Phase != v1.ClaimBound {
				return fmt.Errorf("claim %s is %s", c.Name, c.Status.Phase)
			}
		}
		return nil
	})
}

func claimName(n int) string { return fmt.Sprintf("claim-%d", n%manyClaims) }

// withClaims is a Pod that has the claims from one number on.
func withClaims(name string, from, many int) *v1.Pod {
	p := termSleeper(name)
	for n := from; n < from+many; n++ {
		claim := claimName(n)
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			v1.VolumeMount{Name: claim, MountPath: "/" + claim})
	}
	return p
}

// measure measures a turn of the side that runs.
func (v *volumeBench) measure(ctx context.Context) error {
	name := func(what string, n int) string { return fmt.Sprintf("%s-%d-%s-%d", v.side, v.turn, what, n) }
	if err := v.round(ctx, []*v1.Pod{withClaims(name("warm-up", 0), 0, 1)}, nil); err != nil {
		return err
	}
	for k := range v.b.times(10) {
		if err := v.round(ctx, []*v1.Pod{withClaims(name("one", k), k, 1)}, &v.of[v.side].one); err != nil {
			return err
		}
	}
	var pods []*v1.Pod
	for k := range v.b.times(50) {
		pods = append(pods, withClaims(name("many", k), k, 1))
	}
	var many volumeStarts
	if err := v.round(ctx, pods, &many); err != nil {
		return err
	}
	v.of[v.side].many = append(v.of[v.side].many, many.total...)
	v.of[v.side].last = append(v.of[v.side].last, slices.Max(many.total))
	pods = nil
	for k := range manyClaims / volumesEach {
		pods = append(pods, withClaims(name("rest", k), k*volumesEach, volumesEach))
	}
	return v.rest(ctx, pods)
}

// volumesEach is how many volumes a Pod at rest has.
const volumesEach = 10

// volumeSamples are what the turns of a side have brought.
type volumeSamples struct {
	one        volumeStarts
	many, last []time.Duration // of 50 at once: each, and the last one of each turn
	atRest     map[string]*restSamples
}

// restSamples are of a process at rest, one of each turn.
type restSamples struct {
	usage  []usage // with the processor time of the window
	sleeps []int64
	window time.Duration
}

func (s *volumeSamples) figures(side string) []result.Figure {
	out := append(s.one.figures(side+"/one by one"),
		result.Durations(side+"/at once/create → Running", s.many),
		result.Durations(side+"/at once/all Running", s.last))
	for _, role := range measuredRoles {
		r, name := s.atRest[role], side+"/rest with 100 volumes/"+role
		var cpu, rss, anon, sleeps []float64
		for k, u := range r.usage {
			cpu = append(cpu, float64(u.cpu)/float64(r.window)*100)
			rss, anon = append(rss, mib(u.rss)), append(anon, mib(u.anon))
			sleeps = append(sleeps, float64(r.sleeps[k])/r.window.Seconds())
		}
		out = append(out, result.Samples(name+"/CPU", "% of a core", cpu), result.Samples(name+"/RSS", "MiB", rss),
			result.Samples(name+"/anonymous", "MiB", anon), result.Samples(name+"/wake-ups", "/s", sleeps))
	}
	return out
}

// volumeStarts are starts of Pods with a volume.
type volumeStarts struct{ total, own, cri, csi, attacher []time.Duration }

func (s volumeStarts) figures(name string) []result.Figure {
	return []result.Figure{result.Durations(name+"/create → Running", s.total), result.Durations(name+"/own", s.own),
		result.Durations(name+"/CRI", s.cri), result.Durations(name+"/CSI", s.csi),
		result.Durations(name+"/attacher", s.attacher)}
}

// round runs Pods and ends them; shares are known of a round of one Pod.
func (v *volumeBench) round(ctx context.Context, pods []*v1.Pod, into *volumeStarts) error {
	before, err := v.spent(ctx)
	if err != nil {
		return err
	}
	created := make([]time.Time, len(pods))
	var names []string
	var all sync.WaitGroup
	failed := make([]error, len(pods))
	for i, p := range pods {
		names = append(names, p.Name)
		all.Go(func() {
			created[i] = time.Now()
			failed[i] = v.create(ctx, p)
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := v.seen.all(ctx, names, running); err != nil {
		return err
	}
	after, err := v.spent(ctx)
	if err != nil {
		return err
	}
	for i, name := range names {
		if into == nil {
			break
		}
		total := v.seen.at(name, running).Sub(created[i])
		into.total = append(into.total, total)
		if len(pods) == 1 {
			cri, csi, attacher := after.cri-before.cri, after.csi-before.csi, v.attaching(created[i])
			into.cri, into.csi = append(into.cri, cri), append(into.csi, csi)
			into.attacher, into.own = append(into.attacher, attacher), append(into.own, total-cri-csi-attacher)
		}
	}
	return v.end(ctx, names)
}

// end deletes Pods and waits until their volumes are detached.
func (v *volumeBench) end(ctx context.Context, names []string) error {
	if err := sleep(ctx, 200*time.Millisecond); err != nil { // a shell that just started has not set its trap
		return err
	}
	for _, name := range names {
		if err := v.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	if err := v.seen.all(ctx, names, gone); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return instance.Poll(ctx, 50*time.Millisecond, func() error {
		list, err := v.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d volumes are still attached", len(list.Items))
		}
		return err
	})
}

// inKubeletCalls is what the kubelet has spent in calls so far.
type inKubeletCalls struct{ cri, csi time.Duration }

// spent reads the kubelet's metrics about the calls that make a Pod with a volume run.
func (v *volumeBench) spent(ctx context.Context) (inKubeletCalls, error) {
	raw, err := v.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", v.node, "proxy/metrics").DoRaw(ctx)
	if err != nil {
		return inKubeletCalls{}, fmt.Errorf("metrics of the kubelet: %w", err)
	}
	return readSpent(string(raw)), nil
}

// readSpent adds up the sums of durations in Prometheus' text format.
func readSpent(text string) (s inKubeletCalls) {
	has := func(line string, names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(line, `"`+n+`"`) })
	}
	for line := range strings.Lines(text) {
		n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " ")+1:]), 64)
		took := time.Duration(n * float64(time.Second))
		switch {
		case err != nil:
		case strings.HasPrefix(line, "kubelet_runtime_operations_duration_seconds_sum{"):
			if has(line, "run_podsandbox", "create_container", "start_container") {
				s.cri += took
			}
		case strings.HasPrefix(line, "csi_operations_seconds_sum{"):
			if has(line, "/csi.v1.Node/NodeStageVolume", "/csi.v1.Node/NodePublishVolume") {
				s.csi += took
			}
		}
	}
	return s
}

// rest measures the side's processes while Pods use 100 volumes.
func (v *volumeBench) rest(ctx context.Context, pods []*v1.Pod) error {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
		if err := v.create(ctx, p); err != nil {
			return err
		}
	}
	if err := v.seen.all(ctx, names, running); err != nil {
		return err
	}
	settle, window := 20*time.Second, 30*time.Second
	if v.b.short {
		settle, window = 5*time.Second, 5*time.Second
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	look := func(pid int) (usage, int64) { return read(fmt.Sprintf("/proc/%d", pid)), sleeps(pid) }
	pids, used, slept := v.pids(), map[string]usage{}, map[string]int64{}
	for role, pid := range pids {
		used[role], slept[role] = look(pid)
	}
	if err := sleep(ctx, window); err != nil {
		return err
	}
	of := v.of[v.side]
	if of.atRest == nil {
		of.atRest = map[string]*restSamples{}
	}
	for role, pid := range pids {
		now, times := look(pid)
		now.cpu -= used[role].cpu
		r := of.atRest[role]
		if r == nil {
			r = &restSamples{window: window}
			of.atRest[role] = r
		}
		r.usage, r.sleeps = append(r.usage, now), append(r.sleeps, times-slept[role])
	}
	return v.end(ctx, names)
}

// sleeps is how often the threads of a process have waited of their own will.
func sleeps(pid int) (n int64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f) // a thread may have ended
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				k, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
				n += k
			}
		}
	}
	return n
}
