package source

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// coreKinds are nodes, Pods and what they use.
func coreKinds() []kind {
	return []kind{
		{name: "nodes", required: true, list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.NodeList, error) {
			return c.CoreV1().Nodes().List
		})},
		{name: "pods", required: true, list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.PodList, error) {
			return c.CoreV1().Pods(all).List
		})},
		{name: "namespaces", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.NamespaceList, error) {
			return c.CoreV1().Namespaces().List
		})},
		{name: "serviceaccounts", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.ServiceAccountList, error) {
			return c.CoreV1().ServiceAccounts(all).List
		})},
		{name: "services", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.ServiceList, error) {
			return c.CoreV1().Services(all).List
		})},
		{name: "replicationcontrollers", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.ReplicationControllerList, error) {
			return c.CoreV1().ReplicationControllers(all).List
		})},
		{name: "persistentvolumeclaims", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.PersistentVolumeClaimList, error) {
			return c.CoreV1().PersistentVolumeClaims(all).List
		})},
		{name: "persistentvolumes", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.PersistentVolumeList, error) {
			return c.CoreV1().PersistentVolumes().List
		})},
		{name: "resourcequotas", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.ResourceQuotaList, error) {
			return c.CoreV1().ResourceQuotas(all).List
		})},
		{name: "limitranges", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*corev1.LimitRangeList, error) {
			return c.CoreV1().LimitRanges(all).List
		})},
		{name: "leases", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*coordinationv1.LeaseList, error) {
			return c.CoordinationV1().Leases("kube-node-lease").List
		})},
		{name: "storageclasses", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*storagev1.StorageClassList, error) {
			return c.StorageV1().StorageClasses().List
		})},
		{name: "csinodes", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*storagev1.CSINodeList, error) {
			return c.StorageV1().CSINodes().List
		})},
		{name: "csidrivers", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*storagev1.CSIDriverList, error) {
			return c.StorageV1().CSIDrivers().List
		})},
		{name: "csistoragecapacities", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*storagev1.CSIStorageCapacityList, error) {
			return c.StorageV1().CSIStorageCapacities(all).List
		})},
		{name: "volumeattachments", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*storagev1.VolumeAttachmentList, error) {
			return c.StorageV1().VolumeAttachments().List
		})},
	}
}

// workloadKinds are what makes Pods, and what bounds that.
func workloadKinds() []kind {
	return []kind{
		{name: "deployments", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*appsv1.DeploymentList, error) {
			return c.AppsV1().Deployments(all).List
		})},
		{name: "replicasets", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*appsv1.ReplicaSetList, error) {
			return c.AppsV1().ReplicaSets(all).List
		})},
		{name: "statefulsets", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*appsv1.StatefulSetList, error) {
			return c.AppsV1().StatefulSets(all).List
		})},
		{name: "daemonsets", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*appsv1.DaemonSetList, error) {
			return c.AppsV1().DaemonSets(all).List
		})},
		{name: "controllerrevisions", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*appsv1.ControllerRevisionList, error) {
			return c.AppsV1().ControllerRevisions(all).List
		})},
		{name: "jobs", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*batchv1.JobList, error) {
			return c.BatchV1().Jobs(all).List
		})},
		{name: "cronjobs", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*batchv1.CronJobList, error) {
			return c.BatchV1().CronJobs(all).List
		})},
		{name: "poddisruptionbudgets", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*policyv1.PodDisruptionBudgetList, error) {
			return c.PolicyV1().PodDisruptionBudgets(all).List
		})},
		{name: "horizontalpodautoscalers", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*autoscalingv2.HorizontalPodAutoscalerList, error) {
			return c.AutoscalingV2().HorizontalPodAutoscalers(all).List
		})},
		{name: "priorityclasses", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*schedulingv1.PriorityClassList, error) {
			return c.SchedulingV1().PriorityClasses().List
		})},
		{name: "runtimeclasses", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*nodev1.RuntimeClassList, error) {
			return c.NodeV1().RuntimeClasses().List
		})},
		{name: "resourceslices", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*resourcev1.ResourceSliceList, error) {
			return c.ResourceV1().ResourceSlices().List
		})},
		{name: "resourceclaims", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*resourcev1.ResourceClaimList, error) {
			return c.ResourceV1().ResourceClaims(all).List
		})},
		{name: "deviceclasses", list: listing(func(c kubernetes.Interface) func(context.Context,
			metav1.ListOptions) (*resourcev1.DeviceClassList, error) {
			return c.ResourceV1().DeviceClasses().List
		})},
	}
}
