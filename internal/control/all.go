// Package control runs the controllers: one directory each, decisions in decide.go, API calls in
// do.go.
//
// In: API objects from shared informers. Out: writes through the API like any other client's. To
// add one: a directory and a row in All; see docs/contributing/adding/controller.md.
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

	"github.com/gantry-project/gantry/internal/control/attachdetach"
	"github.com/gantry-project/gantry/internal/control/clusterroleaggregation"
	"github.com/gantry-project/gantry/internal/control/clustertrustbundlepublisher"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/cronjob"
	"github.com/gantry-project/gantry/internal/control/csrcleaner"
	"github.com/gantry-project/gantry/internal/control/daemonset"
	"github.com/gantry-project/gantry/internal/control/deployment"
	"github.com/gantry-project/gantry/internal/control/devicetainteviction"
	"github.com/gantry-project/gantry/internal/control/disruption"
	"github.com/gantry-project/gantry/internal/control/endpoints"
	"github.com/gantry-project/gantry/internal/control/endpointslice"
	"github.com/gantry-project/gantry/internal/control/endpointslicemirroring"
	"github.com/gantry-project/gantry/internal/control/ephemeral"
	"github.com/gantry-project/gantry/internal/control/expand"
	"github.com/gantry-project/gantry/internal/control/garbagecollector"
	"github.com/gantry-project/gantry/internal/control/horizontalpodautoscaler"
	"github.com/gantry-project/gantry/internal/control/job"
	"github.com/gantry-project/gantry/internal/control/namespace"
	"github.com/gantry-project/gantry/internal/control/nodeipam"
	"github.com/gantry-project/gantry/internal/control/nodelifecycle"
	"github.com/gantry-project/gantry/internal/control/persistentvolumebinder"
	"github.com/gantry-project/gantry/internal/control/podgc"
	"github.com/gantry-project/gantry/internal/control/podgroupprotection"
	"github.com/gantry-project/gantry/internal/control/replicaset"
	"github.com/gantry-project/gantry/internal/control/resourceclaim"
	"github.com/gantry-project/gantry/internal/control/resourcequota"
	"github.com/gantry-project/gantry/internal/control/rootcacertpublisher"
	"github.com/gantry-project/gantry/internal/control/serviceaccount"
	"github.com/gantry-project/gantry/internal/control/serviceaccounttoken"
	"github.com/gantry-project/gantry/internal/control/servicelb"
	"github.com/gantry-project/gantry/internal/control/statefulset"
	"github.com/gantry-project/gantry/internal/control/tainteviction"
	"github.com/gantry-project/gantry/internal/control/ttl"
	"github.com/gantry-project/gantry/internal/control/ttlafterfinished"
	"github.com/gantry-project/gantry/internal/control/validatingadmissionpolicystatus"
	"github.com/gantry-project/gantry/internal/control/volumeprotection"
)

// All is every controller, one row each, in no particular order.
var All = []controllerruntime.ControllerDescriptor{
	{Name: "serviceaccount", ServiceAccount: "service-account-controller", EventSource: "serviceaccount-controller",
		Constructor: serviceaccount.New},
	{Name: "serviceaccounttoken", EventSource: "tokens-controller", Constructor: serviceaccounttoken.New},
	{Name: "legacytokencleaner", ServiceAccount: "legacy-service-account-token-cleaner",
		EventSource: "legacy-serviceaccount-token-cleaner-controller", Constructor: serviceaccounttoken.NewCleaner},
	{Name: "rootca", ServiceAccount: "root-ca-cert-publisher", EventSource: "root-ca-certificate-publisher-controller",
		Constructor: rootcacertpublisher.New},
	{Name: "clustertrustbundle", ServiceAccount: "kube-apiserver-serving-clustertrustbundle-publisher",
		EventSource: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
		Constructor: clustertrustbundlepublisher.New},
	{Name: "certcleaner", ServiceAccount: "certificate-controller",
		EventSource: "certificatesigningrequest-cleaner-controller", Constructor: csrcleaner.New},
	{Name: "podcertcleaner", ServiceAccount: "podcertificaterequestcleaner",
		EventSource: "podcertificaterequest-cleaner-controller",
		Constructor: csrcleaner.NewPodCertificateRequestCleaner},
	{Name: "namespace", ServiceAccount: "namespace-controller", EventSource: "namespace-controller",
		Constructor: namespace.New},
	{Name: "replicaset", ServiceAccount: "replicaset-controller", EventSource: "replicaset-controller",
		Constructor: replicaset.New},
	{Name: "deployment", ServiceAccount: "deployment-controller", EventSource: "deployment-controller",
		Constructor: deployment.New},
	{Name: "job", ServiceAccount: "job-controller", EventSource: "job-controller", Constructor: job.New},
	{Name: "jobttl", ServiceAccount: "ttl-after-finished-controller", EventSource: "ttl-after-finished-controller",
		Constructor: ttlafterfinished.New},
	{Name: "clusterroles", ServiceAccount: "clusterrole-aggregation-controller",
		EventSource: "clusterrole-aggregation-controller", Constructor: clusterroleaggregation.New},
	{Name: "ownergc", ServiceAccount: "generic-garbage-collector", EventSource: "garbage-collector-controller",
		Constructor: garbagecollector.New},
	{Name: "podgc", ServiceAccount: "pod-garbage-collector", EventSource: "pod-garbage-collector-controller",
		Constructor: podgc.New},
	{Name: "ttl", ServiceAccount: "ttl-controller", EventSource: "ttl-controller", Constructor: ttl.New},
	{Name: "nodelifecycle", ServiceAccount: "node-controller", EventSource: "node-controller",
		Constructor: nodelifecycle.New},
	{Name: "nodecidr", ServiceAccount: "node-controller", EventSource: "cidrAllocator", Constructor: nodeipam.New},
	{Name: "taintevict", ServiceAccount: "node-controller", EventSource: "taint-eviction-controller",
		Constructor: tainteviction.New},
	{Name: "devicetaint", ServiceAccount: "device-taint-eviction-controller",
		EventSource: "device-taint-eviction-controller",
		Constructor: devicetainteviction.New},
	{Name: "volumebinding", ServiceAccount: "persistent-volume-binder", EventSource: "persistentvolume-controller",
		Constructor: persistentvolumebinder.New},
	{Name: "attachdetach", ServiceAccount: "attachdetach-controller", EventSource: "attachdetach-controller",
		Constructor: attachdetach.New},
	{Name: "ephemeralvolume", ServiceAccount: "ephemeral-volume-controller", EventSource: "ephemeral_volume",
		Constructor: ephemeral.New},
	{Name: "volumeexpand", ServiceAccount: "expand-controller", EventSource: "volume_expand", Constructor: expand.New},
	{Name: "pvcprotection", ServiceAccount: "pvc-protection-controller", EventSource: "pvc-protection-controller",
		Constructor: volumeprotection.NewPVCProtection},
	{Name: "pvprotection", ServiceAccount: "pv-protection-controller", EventSource: "pv-protection-controller",
		Constructor: volumeprotection.NewPVProtection},
	{Name: "vacprotection", ServiceAccount: "volumeattributesclass-protection-controller",
		EventSource: "volumeattributesclass-protection-controller",
		Constructor: volumeprotection.NewVACProtection},
	{Name: "podgroupprotection", ServiceAccount: "podgroup-protection-controller",
		EventSource: "podgroup-protection-controller", Constructor: podgroupprotection.New},
	{Name: "validatingadmissionpolicystatus", ServiceAccount: "validatingadmissionpolicy-status-controller",
		EventSource: "validatingadmissionpolicy-status-controller",
		Constructor: validatingadmissionpolicystatus.New},
	{Name: "horizontalpodautoscaler", ServiceAccount: "horizontal-pod-autoscaler",
		EventSource: "horizontal-pod-autoscaler", Constructor: horizontalpodautoscaler.New},
	{Name: "disruption", ServiceAccount: "disruption-controller", EventSource: "controllermanager",
		Constructor: disruption.New},
	{Name: "resourcequota", ServiceAccount: "resourcequota-controller", EventSource: "resourcequota-controller",
		Constructor: resourcequota.New},
	{Name: "resourceclaim", ServiceAccount: "resource-claim-controller", EventSource: "resource_claim",
		Constructor: resourceclaim.New},
	{Name: "statefulset", ServiceAccount: "statefulset-controller", EventSource: "statefulset-controller",
		Constructor: statefulset.New},
	{Name: "daemonset", ServiceAccount: "daemon-set-controller", EventSource: "daemonset-controller",
		Constructor: daemonset.New},
	{Name: "cronjob", ServiceAccount: "cronjob-controller", EventSource: "cronjob-controller",
		Constructor: cronjob.New},
	{Name: "replicationcontroller", ServiceAccount: "replication-controller", EventSource: "replication-controller",
		Constructor: replicaset.NewReplicationController},
	{Name: "endpointslice", ServiceAccount: "endpointslice-controller", EventSource: "endpoint-slice-controller",
		Constructor: endpointslice.New},
	{Name: "endpoints", ServiceAccount: "endpoint-controller", EventSource: "endpoint-controller",
		Constructor: endpoints.New},
	{Name: "slicemirror", ServiceAccount: "endpointslicemirroring-controller",
		EventSource: "endpoint-slice-mirroring-controller", Constructor: endpointslicemirroring.New},
	{Name: "servicelb", ServiceAccount: "service-controller", EventSource: "service-controller",
		Constructor: servicelb.New},
}

// Options configure Run.
type Options struct {
	// Client and Informers are for reading; each controller writes with its own account
	Deps controllerruntime.ControllerContext
	// As returns the clients of a service account in kube-system, so that each controller has the
	// rights of its role and no more. nil: all use Deps.Client and Deps.Metadata, as does one that
	// names no account.
	As func(account string) (kubernetes.Interface, metadata.Interface, error)
	// Only names the controllers to run; empty: all. Without names those to leave out.
	Only, Without []string
}

// Run runs the controllers until ctx ends. Deps.Recorder may be nil; each controller then writes
// events with its own client. An error means that none was started.
func Run(ctx context.Context, o Options) error {
	var runners []controllerruntime.Runner
	for _, c := range All {
		if len(o.Only) > 0 && !slices.Contains(o.Only, c.Name) || slices.Contains(o.Without, c.Name) {
			continue
		}
		ownClient := o.Deps
		if o.As != nil && c.ServiceAccount != "" {
			var err error
			if ownClient.Client, ownClient.Metadata, err = o.As(c.ServiceAccount); err != nil {
				return fmt.Errorf("controller %s: %w", c.Name, err)
			}
		}
		if ownClient.Recorder == nil {
			broadcaster := record.NewBroadcaster(record.WithContext(ctx))
			broadcaster.StartRecordingToSink(
				&typedcorev1.EventSinkImpl{Interface: ownClient.Client.CoreV1().Events("")})
			defer broadcaster.Shutdown()
			ownClient.Recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: c.EventSource})
		}
		runners = append(runners, c.Constructor(ownClient))
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
