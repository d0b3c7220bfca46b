// Package control runs the controllers around a Pod: one directory each, decisions in decide.go, acts in do.go.
//
// Chapter: between the chapters. In: API objects by shared watches. Out: writes through the API like any other client's.
// To add one: a directory, a row in All, the resources it reads and writes; see docs/adding/controller.md.
package control

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/deployment"
	"github.com/gantry-project/gantry/internal/control/job"
	"github.com/gantry-project/gantry/internal/control/loop"
	"github.com/gantry-project/gantry/internal/control/namespace"
	"github.com/gantry-project/gantry/internal/control/nodelifecycle"
	"github.com/gantry-project/gantry/internal/control/ownergc"
	"github.com/gantry-project/gantry/internal/control/podgc"
	"github.com/gantry-project/gantry/internal/control/replicaset"
	"github.com/gantry-project/gantry/internal/control/rootca"
	"github.com/gantry-project/gantry/internal/control/serviceaccount"
	"github.com/gantry-project/gantry/internal/control/taintevict"
)

// All is every controller, one row each; the order has no meaning.
var All = []loop.Controller{
	{Name: "serviceaccount", Source: "serviceaccount-controller", Reads: []string{"namespaces", "serviceaccounts"}, Writes: []string{"serviceaccounts"}, Make: serviceaccount.New},
	{Name: "rootca", Source: "root-ca-certificate-publisher-controller", Reads: []string{"namespaces", "configmaps"}, Writes: []string{"configmaps"}, Make: rootca.New},
	{Name: "namespace", Source: "namespace-controller", Reads: []string{"namespaces", "*"}, Writes: []string{"namespaces/status", "namespaces/finalize", "*"}, Make: namespace.New},
	{Name: "replicaset", Source: "replicaset-controller", Reads: []string{"replicasets", "pods"}, Writes: []string{"pods", "replicasets/status"}, Make: replicaset.New},
	{Name: "deployment", Source: "deployment-controller", Reads: []string{"deployments", "replicasets", "pods"}, Writes: []string{"replicasets", "deployments", "deployments/status"}, Make: deployment.New},
	{Name: "job", Source: "job-controller", Reads: []string{"jobs", "pods"}, Writes: []string{"pods", "jobs", "jobs/status"}, Make: job.New},
	{Name: "ownergc", Source: "garbage-collector-controller", Reads: []string{"*"}, Writes: []string{"*"}, Make: ownergc.New},
	{Name: "podgc", Source: "pod-garbage-collector-controller", Reads: []string{"pods", "nodes"}, Writes: []string{"pods", "pods/status"}, Make: podgc.New},
	{Name: "nodelifecycle", Source: "node-controller", Reads: []string{"nodes", "leases", "pods"}, Writes: []string{"nodes", "nodes/status", "pods/status"}, Make: nodelifecycle.New},
	{Name: "taintevict", Source: "taint-eviction-controller", Reads: []string{"nodes", "pods"}, Writes: []string{"pods", "pods/status"}, Make: taintevict.New},
}

// Run runs every controller until ctx ends. Deps.Recorder may be nil; events are then written through Deps.Client.
func Run(ctx context.Context, d loop.Deps) {
	recorder := func(string) record.EventRecorder { return d.Recorder }
	if d.Recorder == nil {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: d.Client.CoreV1().Events("")})
		defer broadcaster.Shutdown()
		recorder = func(source string) record.EventRecorder {
			return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: source})
		}
	}
	runners := make([]loop.Runner, 0, len(All))
	for _, c := range All {
		own := d
		own.Recorder = recorder(c.Source)
		runners = append(runners, c.Make(own))
	}
	d.Informers.Start(ctx.Done())
	var wg sync.WaitGroup
	for _, r := range runners {
		wg.Go(func() { r.Run(ctx) })
	}
	wg.Wait()
	d.Informers.Shutdown()
}
