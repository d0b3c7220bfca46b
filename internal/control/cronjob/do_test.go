package cronjob

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// A Job that the cached CronJob does not list yet is no stranger when the CronJob of the API lists
// it: the cache is late. One that neither lists is told of, and one of a CronJob that was made
// anew, or is gone, is left to the event that the cache lacks.
//
// row: CTL-11
func TestJobsThatALateCacheDoesNotListAreKnown(t *testing.T) {
	list := []corev1.ObjectReference{{Name: "mine", UID: "job"}}
	for name, c := range map[string]struct {
		live *batchv1.CronJob
		want string
	}{
		"listed": {live: cronJob("0 0 1 1 *", func(cj *batchv1.CronJob) { cj.Status.Active = list })},
		"listed nowhere": {live: cronJob("0 0 1 1 *"),
			want: "Warning UnexpectedJob Saw a job that the controller did not create or forgot: mine"},
		"made anew": {live: cronJob("0 0 1 1 *", func(cj *batchv1.CronJob) { cj.UID = "another" })},
		"gone":      {},
	} {
		cached := cronJob("0 0 1 1 *")
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: cached.Namespace, Name: "mine", UID: "job",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cached, kind)}}}
		client := fake.NewClientset(job)
		if c.live != nil {
			if err := client.Tracker().Add(c.live); err != nil {
				t.Fatal(err)
			}
		}
		shared := informers.NewSharedInformerFactory(client, 0)
		batch := shared.Batch().V1()
		jobs := batch.Jobs().Informer()
		controllerruntime.IndexByController(jobs)
		events := record.NewFakeRecorder(10)
		r := &controller{cronJobs: batch.CronJobs().Lister(), jobs: jobs,
			controllerContext: controllerruntime.ControllerContext{Client: client, Informers: shared, Recorder: events,
				Now: func() time.Time { return t0 }}}
		if err := batch.CronJobs().Informer().GetIndexer().Add(cached); err != nil {
			t.Fatal(err)
		}
		if err := jobs.GetIndexer().Add(job); err != nil {
			t.Fatal(err)
		}
		if _, err := r.syncCronJob(t.Context(), types.NamespacedName{Namespace: cached.Namespace,
			Name: cached.Name}.String()); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		got := ""
		select {
		case got = <-events.Events:
		default:
		}
		if got != c.want {
			t.Errorf("%s: got event %q, want %q", name, got, c.want)
		}
	}
}
