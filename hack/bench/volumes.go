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
	"github.com/gantry-project/gantry/test/replay/instance"
)

// manyClaims is how many volumes there are.
const manyClaims = 100

// benchClass is the StorageClass of the measurements.
const benchClass = "bench"

// volumes measures starts of Pods with a volume of a CSI driver on one node, and the same node with
// 100 volumes at rest: first with Gantry's kubelet and controllers ("gantry"), then with upstream's
// ("other"), on the same `gantry server` with `gantry scheduler` and the same containerd. The driver
// is local.csi.gantry.dev (directories) with the external-provisioner and the external-attacher;
// its CSIDriver says that volumes are attached. Claims are bound before anything is measured.
//
// "create → Running" is from a client's call to its watch's event. Of starts one by one "CRI" and
// "CSI" are what the kubelet's own metrics add up for the calls that make a Pod run, "attacher" is
// from the VolumeAttachment to its status, as a watch sees both, and "own" is the rest. "rest" is
// of 10 Pods with 10 volumes each, 20 s after the last one ran, over a minute: processor time, and
// how often a second the process went to sleep and woke up.
func (b *bench) volumes(ctx context.Context) ([]result.Figure, error) {
	for _, p := range upstreamPrograms {
		if _, err := os.Stat(filepath.Join(b.upstream, p)); err != nil {
			return nil, fmt.Errorf("%w: run hack/upstream.sh, and name its directory by -upstream", err)
		}
	}
	i, err := b.newInstance(instance.Options{Split: true})
	if err != nil {
		return nil, err
	}
	v := &volumeBench{b: b, instance: i, attached: map[string][2]time.Time{}}
	defer v.remove()
	if err := v.begin(ctx); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name  string
		start func(context.Context) error
	}{{"gantry", v.startOwn}, {"other", v.startUpstream}} {
		if err := s.start(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if err := v.measure(ctx, s.name); err != nil {
			return nil, fmt.Errorf("%s: %w%s", s.name, err, v.reports())
		}
		if err := v.stopSide(); err != nil {
			return nil, err
		}
	}
	return v.figures, nil
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

// measure measures one side.
func (v *volumeBench) measure(ctx context.Context, side string) error {
	if err := v.round(ctx, []*v1.Pod{withClaims(side+"-warm-up", 0, 1)}, nil); err != nil {
		return err
	}
	var one volumeStarts
	for k := range v.b.times(30) {
		p := withClaims(fmt.Sprintf("%s-one-%d", side, k), k, 1)
		if err := v.round(ctx, []*v1.Pod{p}, &one); err != nil {
			return err
		}
	}
	v.figures = append(v.figures, one.figures(side+"/one by one")...)
	var pods []*v1.Pod
	for k := range v.b.times(50) {
		pods = append(pods, withClaims(fmt.Sprintf("%s-many-%d", side, k), k, 1))
	}
	var many volumeStarts
	if err := v.round(ctx, pods, &many); err != nil {
		return err
	}
	v.figures = append(v.figures, result.Durations(side+"/at once/create → Running", many.total),
		result.Value(side+"/at once/all Running", "ms", result.Milliseconds(slices.Max(many.total))))
	return v.rest(ctx, side)
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

// spent is what the kubelet has spent in calls so far.
type spent struct{ cri, csi time.Duration }

// spent reads the kubelet's metrics about the calls that make a Pod with a volume run.
func (v *volumeBench) spent(ctx context.Context) (spent, error) {
	raw, err := v.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", v.node, "proxy/metrics").DoRaw(ctx)
	if err != nil {
		return spent{}, fmt.Errorf("metrics of the kubelet: %w", err)
	}
	return readSpent(string(raw)), nil
}

// readSpent adds up the sums of durations in Prometheus' text format.
func readSpent(text string) (s spent) {
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

// rest measures the side's processes with 100 volumes in use.
func (v *volumeBench) rest(ctx context.Context, side string) error {
	const each = 10
	var names []string
	for k := range manyClaims / each {
		p := withClaims(fmt.Sprintf("%s-rest-%d", side, k), k*each, each)
		names = append(names, p.Name)
		if err := v.create(ctx, p); err != nil {
			return err
		}
	}
	if err := v.seen.all(ctx, names, running); err != nil {
		return err
	}
	settle, window := 20*time.Second, time.Minute
	if v.b.short {
		settle, window = 5*time.Second, 5*time.Second
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	before := v.pids()
	slept := map[string]int64{}
	for role, pid := range before {
		slept[role] = sleeps(pid)
	}
	used := map[string]usage{}
	for role, pid := range before {
		used[role] = read(filepath.Join("/proc", fmt.Sprint(pid)))
	}
	if err := sleep(ctx, window); err != nil {
		return err
	}
	for _, role := range []string{"kubelet", "controllers"} {
		pid := before[role]
		u := read(filepath.Join("/proc", fmt.Sprint(pid)))
		u.cpu -= used[role].cpu
		v.figures = append(v.figures, u.figures(side+"/rest with 100 volumes/"+role, window)...)
		v.figures = append(v.figures, result.Value(side+"/rest with 100 volumes/"+role+"/wake-ups", "/s",
			float64(sleeps(pid)-slept[role])/window.Seconds()))
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
