// Package control runs the controllers around a Pod: one directory each, decisions in decide.go, acts in do.go.
//
// Chapter: between the chapters. In: API objects by shared watches. Out: writes through the API like any other client's.
// To add one: a directory, a row in All, the resources it reads and writes; see docs/contributing/adding/controller.md.
package control

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/certcleaner"
	"github.com/gantry-project/gantry/internal/control/clusterroles"
	"github.com/gantry-project/gantry/internal/control/clustertrustbundle"
	"github.com/gantry-project/gantry/internal/control/cronjob"
	"github.com/gantry-project/gantry/internal/control/daemonset"
	"github.com/gantry-project/gantry/internal/control/deployment"
	"github.com/gantry-project/gantry/internal/control/devicetaint"
	"github.com/gantry-project/gantry/internal/control/disruption"
	"github.com/gantry-project/gantry/internal/control/endpoints"
	"github.com/gantry-project/gantry/internal/control/endpointslice"
	"github.com/gantry-project/gantry/internal/control/job"
	"github.com/gantry-project/gantry/internal/control/jobttl"
	"github.com/gantry-project/gantry/internal/control/loop"
	"github.com/gantry-project/gantry/internal/control/namespace"
	"github.com/gantry-project/gantry/internal/control/nodecidr"
	"github.com/gantry-project/gantry/internal/control/nodelifecycle"
	"github.com/gantry-project/gantry/internal/control/ownergc"
	"github.com/gantry-project/gantry/internal/control/podgc"
	"github.com/gantry-project/gantry/internal/control/replicaset"
	"github.com/gantry-project/gantry/internal/control/resourceclaim"
	"github.com/gantry-project/gantry/internal/control/resourcequota"
	"github.com/gantry-project/gantry/internal/control/rootca"
	"github.com/gantry-project/gantry/internal/control/serviceaccount"
	"github.com/gantry-project/gantry/internal/control/servicelb"
	"github.com/gantry-project/gantry/internal/control/slicemirror"
	"github.com/gantry-project/gantry/internal/control/statefulset"
	"github.com/gantry-project/gantry/internal/control/taintevict"
	"github.com/gantry-project/gantry/internal/control/volumebinding"
	"github.com/gantry-project/gantry/internal/control/volumeprotection"
)

// All is every controller, one row each; the order has no meaning.
var All = []loop.Controller{
	{Name: "serviceaccount", Account: "service-account-controller", Source: "serviceaccount-controller", Reads: []string{"namespaces", "serviceaccounts"}, Writes: []string{"serviceaccounts"}, Make: serviceaccount.New},
	{Name: "rootca", Account: "root-ca-cert-publisher", Source: "root-ca-certificate-publisher-controller", Reads: []string{"namespaces", "configmaps"}, Writes: []string{"configmaps"}, Make: rootca.New},
	{Name: "clustertrustbundle", Account: "kube-apiserver-serving-clustertrustbundle-publisher", Source: "kube-apiserver-serving-clustertrustbundle-publisher-controller", Reads: []string{"clustertrustbundles"}, Writes: []string{"clustertrustbundles"}, Make: clustertrustbundle.New},
	{Name: "certcleaner", Account: "certificate-controller", Source: "certificatesigningrequest-cleaner-controller", Reads: []string{"certificatesigningrequests"}, Writes: []string{"certificatesigningrequests"}, Make: certcleaner.New},
	{Name: "podcertcleaner", Account: "podcertificaterequestcleaner", Source: "podcertificaterequest-cleaner-controller", Reads: []string{"podcertificaterequests"}, Writes: []string{"podcertificaterequests"}, Make: certcleaner.NewOfPods},
	{Name: "namespace", Account: "namespace-controller", Source: "namespace-controller", Reads: []string{"namespaces", "*"}, Writes: []string{"namespaces/status", "namespaces/finalize", "*"}, Make: namespace.New},
	{Name: "replicaset", Account: "replicaset-controller", Source: "replicaset-controller", Reads: []string{"replicasets", "pods"}, Writes: []string{"pods", "replicasets/status"}, Make: replicaset.New},
	{Name: "deployment", Account: "deployment-controller", Source: "deployment-controller", Reads: []string{"deployments", "replicasets", "pods"}, Writes: []string{"replicasets", "deployments", "deployments/status"}, Make: deployment.New},
	{Name: "job", Account: "job-controller", Source: "job-controller", Reads: []string{"jobs", "pods"}, Writes: []string{"pods", "jobs", "jobs/status"}, Make: job.New},
	{Name: "jobttl", Account: "ttl-after-finished-controller", Source: "ttl-after-finished-controller", Reads: []string{"jobs"}, Writes: []string{"jobs"}, Make: jobttl.New},
	{Name: "clusterroles", Account: "clusterrole-aggregation-controller", Source: "clusterrole-aggregation-controller", Reads: []string{"clusterroles"}, Writes: []string{"clusterroles"}, Make: clusterroles.New},
	{Name: "ownergc", Account: "generic-garbage-collector", Source: "garbage-collector-controller", Reads: []string{"*"}, Writes: []string{"*"}, Make: ownergc.New},
	{Name: "podgc", Account: "pod-garbage-collector", Source: "pod-garbage-collector-controller", Reads: []string{"pods", "nodes"}, Writes: []string{"pods", "pods/status"}, Make: podgc.New},
	{Name: "nodelifecycle", Account: "node-controller", Source: "node-controller", Reads: []string{"nodes", "leases", "pods"}, Writes: []string{"nodes", "nodes/status", "pods/status"}, Make: nodelifecycle.New},
	{Name: "nodecidr", Account: "node-controller", Source: "cidrAllocator", Reads: []string{"nodes"}, Writes: []string{"nodes"}, Make: nodecidr.New},
	{Name: "taintevict", Account: "node-controller", Source: "taint-eviction-controller", Reads: []string{"nodes", "pods"}, Writes: []string{"pods", "pods/status"}, Make: taintevict.New},
	{Name: "devicetaint", Account: "device-taint-eviction-controller", Source: "device-taint-eviction-controller", Reads: []string{"pods", "resourceclaims", "resourceslices", "devicetaintrules"}, Writes: []string{"pods", "pods/status", "devicetaintrules/status"}, Make: devicetaint.New},
	{Name: "volumebinding", Account: "persistent-volume-binder", Source: "persistentvolume-controller", Reads: []string{"persistentvolumes", "persistentvolumeclaims", "storageclasses"}, Writes: []string{"persistentvolumes", "persistentvolumes/status", "persistentvolumeclaims", "persistentvolumeclaims/status"}, Make: volumebinding.New},
	{Name: "pvcprotection", Account: "pvc-protection-controller", Source: "pvc-protection-controller", Reads: []string{"persistentvolumeclaims", "pods"}, Writes: []string{"persistentvolumeclaims"}, Make: volumeprotection.NewClaims},
	{Name: "pvprotection", Account: "pv-protection-controller", Source: "pv-protection-controller", Reads: []string{"persistentvolumes"}, Writes: []string{"persistentvolumes"}, Make: volumeprotection.NewVolumes},
	{Name: "vacprotection", Account: "volumeattributesclass-protection-controller", Source: "volumeattributesclass-protection-controller", Reads: []string{"volumeattributesclasses", "persistentvolumes", "persistentvolumeclaims"}, Writes: []string{"volumeattributesclasses"}, Make: volumeprotection.NewClasses},
	{Name: "disruption", Account: "disruption-controller", Source: "controllermanager", Reads: []string{"poddisruptionbudgets", "pods", "replicasets", "deployments", "statefulsets", "replicationcontrollers", "*/scale"}, Writes: []string{"poddisruptionbudgets/status", "pods/status"}, Make: disruption.New},
	{Name: "resourcequota", Account: "resourcequota-controller", Source: "resourcequota-controller", Reads: []string{"resourcequotas", "*"}, Writes: []string{"resourcequotas/status"}, Make: resourcequota.New},
	{Name: "resourceclaim", Account: "resource-claim-controller", Source: "resource_claim", Reads: []string{"pods", "resourceclaims", "resourceclaimtemplates"}, Writes: []string{"resourceclaims", "resourceclaims/status", "pods/status"}, Make: resourceclaim.New},
	{Name: "statefulset", Account: "statefulset-controller", Source: "statefulset-controller", Reads: []string{"statefulsets", "pods", "controllerrevisions", "persistentvolumeclaims"}, Writes: []string{"pods", "persistentvolumeclaims", "controllerrevisions", "statefulsets/status"}, Make: statefulset.New},
	{Name: "daemonset", Account: "daemon-set-controller", Source: "daemonset-controller", Reads: []string{"daemonsets", "nodes", "pods", "controllerrevisions"}, Writes: []string{"pods", "controllerrevisions", "daemonsets/status"}, Make: daemonset.New},
	{Name: "cronjob", Account: "cronjob-controller", Source: "cronjob-controller", Reads: []string{"cronjobs", "jobs"}, Writes: []string{"jobs", "cronjobs/status"}, Make: cronjob.New},
	{Name: "replicationcontroller", Account: "replication-controller", Source: "replication-controller", Reads: []string{"replicationcontrollers", "pods"}, Writes: []string{"pods", "replicationcontrollers/status"}, Make: replicaset.NewReplicationController},
	{Name: "endpointslice", Account: "endpointslice-controller", Source: "endpoint-slice-controller", Reads: []string{"services", "pods", "nodes", "endpointslices"}, Writes: []string{"endpointslices"}, Make: endpointslice.New},
	{Name: "endpoints", Account: "endpoint-controller", Source: "endpoint-controller", Reads: []string{"services", "pods", "endpoints"}, Writes: []string{"endpoints"}, Make: endpoints.New},
	{Name: "slicemirror", Account: "endpointslicemirroring-controller", Source: "endpoint-slice-mirroring-controller", Reads: []string{"services", "endpoints", "endpointslices"}, Writes: []string{"endpointslices"}, Make: slicemirror.New},
	{Name: "servicelb", Account: "service-controller", Source: "service-controller", Reads: []string{"services", "nodes", "pods", "endpointslices"}, Writes: []string{"services/status"}, Make: servicelb.New},
}

// Options say what the controllers run with.
type Options struct {
	Deps loop.Deps // Client and Informers read; each controller writes as its own account
	// As makes the clients of a service account in kube-system, so that each controller may do what its role allows and no more.
	// nil lets all of them use Deps.Client and Deps.Metadata.
	As func(account string) (kubernetes.Interface, metadata.Interface, error)
	// Only names the controllers to run; empty means all. Without names those that are left out.
	Only, Without []string
}

// Run runs the controllers until ctx ends. Deps.Recorder may be nil; events are then written by each controller's own client.
func Run(ctx context.Context, o Options) error {
	var runners []loop.Runner
	for _, c := range All {
		if len(o.Only) > 0 && !slices.Contains(o.Only, c.Name) || slices.Contains(o.Without, c.Name) {
			continue
		}
		own := o.Deps
		if o.As != nil {
			var err error
			if own.Client, own.Metadata, err = o.As(c.Account); err != nil {
				return fmt.Errorf("controller %s: %w", c.Name, err)
			}
		}
		if own.Recorder == nil {
			broadcaster := record.NewBroadcaster(record.WithContext(ctx))
			broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: own.Client.CoreV1().Events("")})
			defer broadcaster.Shutdown()
			own.Recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: c.Source})
		}
		runners = append(runners, c.Make(own))
	}
	o.Deps.Informers.Start(ctx.Done())
	var wg sync.WaitGroup
	for _, r := range runners {
		wg.Go(func() { r.Run(ctx) })
	}
	wg.Wait()
	o.Deps.Informers.Shutdown()
	return nil
}
