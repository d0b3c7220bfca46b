package forecast_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/internal/simulate/source"
	"github.com/gantry-project/gantry/testcluster"
)

const disks = "disk.example.com"

// startDisks runs a driver whose volumes are attached on each node, and attaches what it is asked
// to, as an external attacher does.
func (l *lab) startDisks(nodes ...string) {
	ctx := l.t.Context()
	for _, node := range nodes {
		d := (&csitest.Driver{Name: disks, Info: &csipb.NodeGetInfoResponse{NodeId: node},
			Capabilities: []csipb.NodeServiceCapability_RPC_Type{
				csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}).Start(l.t)
		d.Register(l.t, filepath.Join(l.cluster.KubeletDir(node), "plugins_registry"))
	}
	_, err := l.client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: disks}}, metav1.CreateOptions{})
	l.must(err)
	attachments := l.client.StorageV1().VolumeAttachments()
	w, err := attachments.Watch(ctx, metav1.ListOptions{})
	l.must(err)
	l.t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			a, ok := e.Object.(*storagev1.VolumeAttachment)
			if !ok || e.Type == "DELETED" || a.Status.Attached {
				continue
			}
			_, err := attachments.Patch(ctx, a.Name, types.MergePatchType, []byte(`{"status":{"attached":true}}`),
				metav1.PatchOptions{}, "status")
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				l.t.Error(err)
			}
		}
	}()
}

// makeDisk makes a volume for one node at a time, its claim, and a Deployment of one Pod that uses
// it.
func (l *lab) makeDisk(ctx context.Context) {
	none, one := "", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := l.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{AccessModes: modes, Capacity: one,
			ClaimRef: &corev1.ObjectReference{Namespace: l.ns, Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: disks,
				VolumeHandle: "vol-1"}}}}, metav1.CreateOptions{})
	l.must(err)
	_, err = l.client.CoreV1().PersistentVolumeClaims(l.ns).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes,
			StorageClassName: &none, VolumeName: "data",
			Resources: corev1.VolumeResourceRequirements{Requests: one}}}, metav1.CreateOptions{})
	l.must(err)
	t := template("db", 100, 100)
	t.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	t.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	d := l.deploymentOf("db", 1, t)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	_, err = l.client.AppsV1().Deployments(l.ns).Create(ctx, d, metav1.CreateOptions{})
	l.must(err)
}

// foretold is what a change brings: the node of the Pod that is not leaving, and whether it becomes
// ready, with what keeps its claims.
func (l *lab) foretold(change scenario.Change, horizon time.Duration) (node string, ready bool, claims []string) {
	l.t.Helper()
	copied, err := source.FromCluster(l.t.Context(), l.client)
	l.must(err)
	_, err = scenario.Simulate(l.t.Context(), scenario.Input{Objects: copied.Objects, Start: time.Now(),
		Model: behavior.Model{Default: behavior.Assumed()}, Horizon: horizon}, func() scenario.Change { return change },
		func(ctx context.Context, r *scenario.Run) error {
			unready, err := r.Unready(ctx)
			for i := range unready {
				claims = append(claims, r.Cluster.ClaimsOf(ctx, &unready[i])...)
			}
			ready = len(unready) == 0
			for _, p := range r.Forecast.Pods {
				if p.Owner == "deployment/db" && p.Created != nil {
					node = p.Node
				}
			}
			l.t.Logf("%s: %s", r.Forecast.Verb, podLines(r.Forecast))
			return err
		})
	l.must(err)
	return node, ready, claims
}

func podLines(f *forecast.Forecast) string {
	var b strings.Builder
	_ = f.WriteText(&b) // to memory
	return b.String()
}

// staying is the Pod that is not leaving; nil: there is none.
func (l *lab) staying() *corev1.Pod {
	for _, p := range l.pods() {
		if p.DeletionTimestamp == nil && scenario.OwnerOf(&p) == "deployment/db" {
			return &p
		}
	}
	return nil
}

// row: TOO-06
// A volume of one node at a time: a drain moves its Pod when it is detached. A lost node keeps it
// from the Pod that comes in the place of its own, until somebody says that the node is off.
func TestVolumesMoveAsForetold(t *testing.T) {
	t.Parallel()
	nodes := []string{"n1", "n2", "n3"}
	c := testcluster.Start(t, testcluster.WithNodes(nodes...), testcluster.WithPlugins(),
		testcluster.WithNodeMonitorGracePeriod(25*time.Second))
	l := &lab{t: t, cluster: c, client: c.Client, ns: "default"}
	ctx := t.Context()
	for i := range nodes {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("filler-", i)},
			Spec: template("filler", 100+2000*i, 100+2000*i).Spec}
		p.Spec.NodeName = nodes[i]
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		_, err := l.client.CoreV1().Pods(l.ns).Create(ctx, p, metav1.CreateOptions{})
		l.must(err)
	}
	l.startDisks(nodes...)
	l.makeDisk(ctx)
	l.wait("the workload", l.ready)

	from := l.staying().Spec.NodeName
	node, ready, claims := l.foretold(&scenario.Drain{Nodes: []string{from}, Force: true}, 0)
	l.drain(ctx, from)
	l.wait("the drained Pod elsewhere", func() bool { p := l.staying(); return p != nil && pod.IsReady(p) })
	if got := l.staying().Spec.NodeName; got != node || !ready {
		t.Errorf("drained from %s to %s, foretold %s, ready %v, claims %q", from, got, node, ready, claims)
	}

	from = node
	node, ready, claims = l.foretold(&scenario.Lose{Nodes: []string{from}}, 10*time.Minute)
	if ready || len(claims) != 1 || !strings.HasSuffix(claims[0], "is attached to node "+from) {
		t.Errorf("the loss of %s: foretold ready %v, claims %q, want one that the node keeps", from, ready, claims)
	}
	before := l.staying().UID
	c.KillNode(from)
	l.wait("the Pod that cannot have the volume", func() bool {
		events, err := l.client.CoreV1().Events(l.ns).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=FailedAttachVolume"})
		l.must(err)
		p := l.staying()
		for _, e := range events.Items {
			if p != nil && p.UID != before && e.InvolvedObject.UID == p.UID &&
				strings.Contains(e.Message, "Waiting for detach") {
				return true
			}
		}
		return false
	})
	if p := l.staying(); p.Spec.NodeName != node || pod.IsReady(p) {
		t.Errorf("lost %s: a Pod on %s, ready %v; foretold %s, unready", from, p.Spec.NodeName, pod.IsReady(p), node)
	}

	after, ready, claims := l.foretold(&scenario.Lose{Nodes: []string{from}, OutOfService: true}, 10*time.Minute)
	if !ready {
		t.Errorf("%s out of service: foretold unready on %q, claims %q", from, after, claims)
	}
	n, err := l.client.CoreV1().Nodes().Get(ctx, from, metav1.GetOptions{})
	l.must(err)
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
		Effect: corev1.TaintEffectNoExecute})
	_, err = l.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	l.must(err)
	l.wait("the Pod with the volume", func() bool { p := l.staying(); return p != nil && pod.IsReady(p) })
	if got := l.staying().Spec.NodeName; got != node {
		t.Errorf("out of service: on %s, foretold %s", got, node)
	}
}
