package forecast_test

import (
	"bytes"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/simulate/source"
	"github.com/gantry-project/gantry/testcluster"
)

// row: TOO-06
// From the journal a copy learns, also of Pods that are gone, how long a Deployment's containers
// take to stop, and how long a Job's run and with which code they end; a snapshot keeps it.
func TestTimesAreLearntFromTheJournal(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, testcluster.WithNodes("n1"))
	c.On(testcluster.Match{Image: "slow"}, testcluster.Script{Main: func(p *testcluster.Process) int {
		<-p.Signal
		select {
		case <-time.After(700 * time.Millisecond):
		case <-p.Context.Done():
		}
		return 0
	}})
	c.On(testcluster.Match{Image: "fails"}, testcluster.Script{Main: func(p *testcluster.Process) int {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-p.Context.Done():
		}
		return 3
	}})
	l := &lab{t: t, cluster: c, client: c.Client, ns: "shop"}
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: l.ns}}, metav1.CreateOptions{})
	l.must(err)
	l.wait("the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts(l.ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	slow := template("web", 100, 100)
	slow.Spec.Containers[0].Image, slow.Spec.TerminationGracePeriodSeconds = "slow", new(int64(10))
	_, err = c.Client.AppsV1().Deployments(l.ns).Create(t.Context(), l.deploymentOf("web", 2, slow),
		metav1.CreateOptions{})
	l.must(err)
	fails := template("batch", 100, 100)
	fails.Spec.Containers[0].Image, fails.Spec.RestartPolicy = "fails", corev1.RestartPolicyNever
	_, err = c.Client.BatchV1().Jobs(l.ns).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "batch"},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: fails}},
		metav1.CreateOptions{})
	l.must(err)
	l.wait("the workload", func() bool { return len(l.pods()) == 3 && l.ready() })
	for _, p := range l.pods() {
		if p.Labels["app"] == "web" {
			l.must(c.Client.CoreV1().Pods(l.ns).Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
			break
		}
	}
	var copied source.Copied
	l.wait("what the journal tells", func() bool {
		copied, err = source.FromCluster(t.Context(), c.Client)
		l.must(err)
		return copied.Times["shop/Deployment/web"].Stop != nil && copied.Times["shop/Job/batch"].Run != nil
	})
	var file bytes.Buffer
	l.must(source.WriteSnapshot(&file, copied, time.Now()))
	again, _, err := source.FromFiles(t.Context(), []string{"-"}, &file)
	l.must(err)
	web, batch := again.Times["shop/Deployment/web"], again.Times["shop/Job/batch"]
	if web.Stop == nil || web.Stop.P50 < 700*time.Millisecond || web.Stop.P50 > 5*time.Second || web.Start == nil {
		t.Errorf("web: got %+v, want at least 700 ms to stop, and a start", web)
	}
	if batch.Run == nil || batch.Run.P50 < 250*time.Millisecond || batch.ExitCode == nil || *batch.ExitCode != 3 {
		t.Errorf("the Job: got %+v, want some 300 ms and code 3", batch)
	}
}
