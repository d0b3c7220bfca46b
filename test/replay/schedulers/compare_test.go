package schedulers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/instance"
)

// config is what both schedulers run with; %[1]s stands before each profile's name.
const config = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %[2]q, qps: 5000, burst: 5000}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
- schedulerName: %[1]s-plain
- schedulerName: %[1]s-packs
  pluginConfig:
  - {name: NodeResourcesFit, args: {ignoredResources: [example.com/gpu], scoringStrategy: {type: MostAllocated,
      resources: [{name: cpu, weight: 3}, {name: memory, weight: 1}, {name: example.com/gpu, weight: 5}]}}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 40, ignorePreferredTermsOfExistingPods: true}}
  - {name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{matchExpressions: [{key: gen, operator: NotIn, values: ["1"]}]}]}}}}
- schedulerName: %[1]s-curve
  percentageOfNodesToScore: 100
  pluginConfig:
  - {name: NodeResourcesFit, args: {ignoredResourceGroups: [example.com],
      scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 2},
        {utilization: 45, score: 10}, {utilization: 100, score: 1}]}, resources: [{name: cpu, weight: 2},
          {name: memory, weight: 1}]}}}
  - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 1}, {name: memory, weight: 1},
      {name: ephemeral-storage, weight: 1}]}}
  - {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1,
      topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}
  - {name: VolumeBinding, args: {shape: [{utilization: 10, score: 1}, {utilization: 60, score: 9}, {utilization: 100,
      score: 3}]}}
- schedulerName: %[1]s-weighs
  plugins:
    multiPoint: {enabled: [{name: ImageLocality, weight: 7}, {name: TaintToleration, weight: 11},
      {name: VolumeBinding, weight: 4}], disabled: [{name: InterPodAffinity}]}
    score: {disabled: [{name: NodeResourcesBalancedAllocation}], enabled: [{name: NodeAffinity, weight: 30}]}
- schedulerName: %[1]s-few
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder},
      {name: NodeResourcesFit, weight: 2}, {name: NodeName}, {name: TaintToleration, weight: 1},
        {name: DefaultPreemption}]}
`

var profiles = []string{"plain", "plain", "plain", "packs", "curve", "weighs", "few"}

// schedulerRun is a scheduler under comparison.
type schedulerRun struct {
	name string // of its profiles, before the dash
	log  string // file
	read int64  // how much of the log was looked at
}

// outcome is what a scheduler did about a Pod.
type outcome struct {
	Node      string   `json:",omitempty"`
	Nominated string   `json:",omitempty"`
	Condition string   `json:",omitempty"` // of a refused Pod
	Event     string   `json:",omitempty"` // the first FailedScheduling
	Victims   []string `json:",omitempty"` // Pods that made room
	Volumes   []string `json:",omitempty"` // of the Pod's own claims
	Stuck     bool     `json:",omitempty"` // is nominated to a node, and was not bound though the victims are gone
	Scores    scores   `json:",omitempty"`
}

// scores are weighted points by plugin by node; the empty plugin has the sum.
type scores map[string]map[string]int64

func TestTwoSchedulersAgree(t *testing.T) {
	other := os.Getenv("GANTRY_OTHER")
	if other == "" {
		t.Skip("GANTRY_OTHER names no other scheduler's program")
	}
	b := start(t, other)
	if os.Getenv("GANTRY_RECORD") != "" {
		b.record = outcomes{}
	}
	b.run(t, number(t, "GANTRY_SEED", 1), number(t, "GANTRY_CASES", 20))
	if b.record != nil {
		if err := b.record.write(); err != nil {
			t.Error(err)
		}
	}
}

// number is an environment variable, or otherwise where it is not set.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(name), fmt.Sprint(otherwise)), 10, 64)
	if err != nil {
		t.Fatalf("%s: got error %v, want none", name, err)
	}
	return n
}

func (b *comparison) run(t *testing.T, first, cases uint64) {
	var counts outcomeCounts
	for seed := first; seed < first+cases && t.Context().Err() == nil; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { b.compare(t, seed, &counts) })
	}
	t.Logf("%d Pods bound, %d refused, %d of them with victims, %d gated; %d scores of plugins equal", counts.bound,
		counts.refused, counts.evicting, counts.gated, counts.scores)
}

// outcomeCounts counts what was compared.
type outcomeCounts struct{ bound, refused, evicting, gated, scores int }

// comparison is an API server with both schedulers, or with ours alone and what was recorded of the
// other.
type comparison struct {
	client   kubernetes.Interface
	both     []*schedulerRun
	recorded outcomes // instead of the other scheduler
	record   outcomes // gets what the other did in clusters where both agree; nil: nothing is recorded
}

// start runs an API server with our scheduler and, unless other is empty, that program.
func start(t *testing.T, other string) *comparison {
	t.Helper()
	i, err := instance.New(instance.Options{Binary: cmp.Or(os.Getenv("GANTRY_BINARY"), binaries.Gantry(t)),
		BinDir: binaries.NextToTest(), Number: 9, Split: true, NodeIP: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(i.Stop(), i.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(i.Start(), i.WaitAPI(t.Context())); err != nil {
		t.Fatal(err)
	}
	cfg, err := i.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	b := &comparison{client: kubernetes.NewForConfigOrDie(cfg)}
	if err := b.createObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(i.Dir, "server", "scheduler.kubeconfig")
	for _, s := range []struct {
		name, program string
		args          []string
	}{{"ours", i.Binary(), []string{"scheduler", "--kubeconfig", kubeconfig, "-v=4"}},
		{"theirs", other, []string{"-v=10"}}} {
		if s.program == "" {
			continue
		}
		o := &schedulerRun{name: s.name, log: filepath.Join(i.Dir, s.name+".log")}
		file := filepath.Join(i.Dir, s.name+".yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, config, s.name, kubeconfig), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(o.log)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(s.program, append(s.args, "--leader-elect=false", "--secure-port=0", "--config", file)...)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() && os.Getenv("GANTRY_LOGS") != "" {
				if text, err := os.ReadFile(o.log); err == nil {
					_ = os.WriteFile(filepath.Join(os.Getenv("GANTRY_LOGS"), o.name+".log"), text, 0o644)
				}
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			out.Close()
		})
		b.both = append(b.both, o)
	}
	for _, o := range b.both {
		if err := b.watches(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

const podsPerCluster = 6

// compare makes a cluster and has both schedule some Pods in it, one after the other; a Pod they
// agree to bind may stay where the other put it.
func (b *comparison) compare(t *testing.T, seed uint64, counts *outcomeCounts) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	d := roll(seed)
	nodes := 1 + d.IntN(10)
	if err := b.fill(ctx, d, nodes); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}()
	for _, o := range b.both {
		if err := b.waitForNodes(ctx, o, nodes, seed); err != nil {
			t.Fatal(err)
		}
	}
	var done []outcome // the other's
	defer func() {
		if b.record != nil && !t.Failed() {
			b.record[seed] = done
		}
	}()
	for n := range podsPerCluster {
		name := "new"
		if d.oneIn(15) {
			name = banned
		}
		p := d.newcomer(fmt.Sprintf("%s-%d-%d", name, seed, n), profiles)
		stays, theirsFirst := d.oneIn(2), d.oneIn(2)
		check := func(p *v1.Pod) (ours, theirs outcome) {
			ours, theirs, err := b.checkRefusal(ctx, p, theirsFirst)
			if err != nil {
				t.Fatal(err)
			}
			if b.recorded != nil {
				theirs = b.recorded[seed][n]
			}
			return ours, theirs
		}
		ours, theirs := check(p)
		done = append(done, theirs)
		// kube-scheduler does so when none but the first victims hold a host port that the Pod
		// wants: it is woken for these while others are still to go
		if theirs.Stuck && !ours.Stuck {
			t.Logf("%s: the other scheduler left it waiting for %s", p.Name, theirs.Nominated)
			continue
		}
		if off := differ(ours, theirs); len(off) > 0 {
			// once more, as what one of them did may have reached the other late
			again, andTheirs := check(renamed(p, p.Name+"-again"))
			done[n] = andTheirs
			if still := differ(again, andTheirs); len(still) > 0 {
				t.Errorf("%s (profile %s):\n%s\n%s", p.Name, p.Spec.SchedulerName, strings.Join(still, "\n"),
					describe(p))
			} else {
				t.Logf("%s: differed once: %s", p.Name, strings.Join(off, "\n"))
			}
		}
		counts.count(ours)
		if stays && done[n].Node != "" {
			q := renamed(p, p.Name+"-stays")
			// who has none began just now, whenever that is asked
			began := metav1.NewTime(began.Add(time.Duration(n) * time.Hour))
			q.Spec.NodeName, q.Status = done[n].Node, v1.PodStatus{Phase: v1.PodRunning, StartTime: &began}
			if err := b.create(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (c *outcomeCounts) count(o outcome) {
	switch {
	case o.Node != "":
		c.bound++
	case strings.HasPrefix(o.Condition, "SchedulingGated"):
		c.gated++
	default:
		c.refused++
	}
	if len(o.Victims) > 0 {
		c.evicting++
	}
	for _, parts := range o.Scores {
		c.scores += len(parts)
	}
}

// checkRefusal has both schedulers schedule a Pod; what each did is undone before the other's turn.
func (b *comparison) checkRefusal(ctx context.Context, p *v1.Pod, theirsFirst bool) (ours, theirs outcome, err error) {
	turns, out := slices.Clone(b.both), map[string]outcome{}
	if theirsFirst {
		slices.Reverse(turns)
	}
	for _, o := range turns {
		q := renamed(p, p.Name+"-"+o.name)
		q.Spec.SchedulerName = o.name + "-" + p.Spec.SchedulerName
		got, err := b.turn(ctx, o, q)
		if err != nil {
			return ours, theirs, fmt.Errorf("%s with %s: %w", o.name, q.Name, err)
		}
		out[o.name] = got
	}
	return out["ours"], out["theirs"], nil
}

// turn has one scheduler schedule a Pod, removes the Pod and makes its victims anew.
func (b *comparison) turn(ctx context.Context, o *schedulerRun, p *v1.Pod) (got outcome, err error) {
	before, err := b.pods(ctx)
	if err != nil {
		return got, err
	}
	own, err := b.claim(ctx, p)
	if err != nil {
		return got, err
	}
	changes, err := b.client.CoreV1().Pods(p.Namespace).Watch(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + p.Name})
	if err != nil {
		return got, err
	}
	defer changes.Stop()
	if err := b.create(ctx, p); err != nil {
		return got, err
	}
	if got, err = b.watch(ctx, changes, p, own); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil &&
		got.Nominated != "" {
		got.Stuck = true
	} else if err != nil {
		return got, err
	}
	after, err := b.pods(ctx)
	if err != nil {
		return got, err
	}
	now := int64(0)
	if err := b.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return got, err
	}
	if got.Volumes, err = b.release(ctx, p.Namespace, own); err != nil {
		return got, err
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] == nil {
			got.Victims = append(got.Victims, key)
			if err := b.create(ctx, before[key]); err != nil {
				return got, err
			}
		}
	}
	if got.Scores, err = o.scores(p.Namespace + "/" + p.Name); err != nil {
		return got, err
	}
	// bound before anybody looked: the event still has what the condition had
	if len(got.Victims) > 0 && got.Event == "" {
		if got.Event, err = b.refusal(ctx, p); err != nil {
			return got, err
		}
	}
	got.Event = strings.ReplaceAll(got.Event, p.Name, "POD")
	got.Condition = strings.ReplaceAll(got.Condition, p.Name, "POD")
	return got, nil
}

// watch follows a Pod until it is bound or refused for good; who was nominated to a node is waited
// for until its victims have left and it is bound. It sees every change, so that a condition which
// the next one overwrites at once is not missed.
func (b *comparison) watch(ctx context.Context, changes watch.Interface, p *v1.Pod,
	own []string) (got outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			return got, fmt.Errorf("neither bound nor refused: %w", ctx.Err())
		case <-tick.C: // what the controllers of volumes would do meanwhile
			if err := b.control(ctx, p.Namespace, own); err != nil {
				return got, err
			}
		case e := <-changes.ResultChan():
			now, ok := e.Object.(*v1.Pod)
			if !ok {
				return got, fmt.Errorf("the watch of the Pod ended: %v", e.Object)
			}
			done = got.follow(now)
		}
	}
	if got.Condition != "" && !strings.HasPrefix(got.Condition, "SchedulingGated") {
		got.Event, err = b.refusal(ctx, p)
	}
	return got, err
}

// follow takes a change of the Pod in and tells whether the scheduler is done with it.
func (o *outcome) follow(now *v1.Pod) bool {
	o.Node = now.Spec.NodeName
	o.Nominated = cmp.Or(o.Nominated, now.Status.NominatedNodeName)
	for _, c := range now.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			o.Condition = cmp.Or(o.Condition, c.Reason+": "+c.Message)
		}
	}
	return o.Node != "" || o.Condition != "" && now.Status.NominatedNodeName == ""
}

// refusal waits for the first FailedScheduling of a Pod.
func (b *comparison) refusal(ctx context.Context, p *v1.Pod) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = instance.Poll(ctx, 5*time.Millisecond, func() error {
		events, err := b.client.EventsV1().Events(p.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "regarding.name=" + p.Name})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "FailedScheduling" {
				text = fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.Action, e.Note)
				return nil
			}
		}
		return errors.New("no FailedScheduling")
	})
	return text, err
}

// differ says in what two outcomes differ. A node may be another if it is as good; the shape of a
// gap in the scores is the plugin's that is missing.
func differ(ours, theirs outcome) (out []string) {
	say := func(what string, a, b any) {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			out = append(out, fmt.Sprintf("%s:\n   ours %v\n theirs %v", what, a, b))
		}
	}
	say("stuck", ours.Stuck, theirs.Stuck)
	say("bound", ours.Node != "", theirs.Node != "")
	// who is bound soon after had the others for a moment only
	if len(ours.Victims) == 0 || ours.Condition != "" && theirs.Condition != "" {
		say("condition", ours.Condition, theirs.Condition)
		if len(ours.Volumes)+len(theirs.Volumes) == 0 { // who waits for volumes is nominated to its node for a moment
			say("promised", ours.Nominated, theirs.Nominated)
		}
	}
	say("event", ours.Event, theirs.Event)
	say("victims", ours.Victims, theirs.Victims)
	if ours.Node == theirs.Node {
		say("volumes", ours.Volumes, theirs.Volumes)
	}
	if len(out) > 0 || len(theirs.Victims) > 0 {
		return out
	}
	if len(theirs.Scores) == 0 { // nothing is scored where one node is left
		say("node", ours.Node, theirs.Node)
		return out
	}
	say("scored nodes", slices.Sorted(maps.Keys(ours.Scores)), slices.Sorted(maps.Keys(theirs.Scores)))
	for _, node := range slices.Sorted(maps.Keys(theirs.Scores)) {
		a, b := ours.Scores[node], theirs.Scores[node]
		if a == nil {
			continue // which nodes are scored is told above
		}
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, plugin := range slices.Sorted(maps.Keys(names)) {
			say("points of "+cmp.Or(plugin, "all plugins")+" for "+node, a[plugin], b[plugin])
		}
	}
	for _, o := range []outcome{ours, theirs} {
		for node := range theirs.Scores {
			if o.Node != "" && theirs.Scores[node][""] > theirs.Scores[o.Node][""] {
				out = append(out, fmt.Sprintf("%s is better than %s", node, o.Node))
			}
		}
	}
	return out
}

func describe(p *v1.Pod) string {
	return fmt.Sprintf("asks %v, labels %v, selector %v\naffinity %v\nspread %v\ntolerations %v, priority %q, claims "+
		"%s", p.Spec.Containers[0].Resources.Requests, p.Labels, p.Spec.NodeSelector,
		p.Spec.Affinity, p.Spec.TopologySpreadConstraints, p.Spec.Tolerations, p.Spec.PriorityClassName,
		p.Annotations[wants])
}

func renamed(p *v1.Pod, name string) *v1.Pod {
	q := p.DeepCopy()
	q.Name = name
	return q
}
