package gather

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// scope says where objects of a kind are, and when they are read.
type scope int

const (
	namespaced scope = iota // read in the namespace asked about
	shared                  // of the whole cluster, and read always: others name them
	rare                    // of the whole cluster, and read when asked about or for an overview
	inside                  // in a namespace, and read when asked about or for an overview
)

// kindRow is a kind whose objects are read for findings.
type kindRow struct {
	kind    string // as in manifests
	aliases string // further names that kubectl takes
	scope   scope
	list    func(context.Context, kubernetes.Interface, string, metav1.ListOptions) (runtime.Object, error)
}

type (
	clientset = kubernetes.Interface
	listing   = metav1.ListOptions
)

// kindRows are the kinds that findings know.
func kindRows() []kindRow {
	return slices.Concat(coreKinds(), workloadKinds(), policyKinds(), clusterKinds(), furtherKinds())
}

// furtherKinds are kinds that few objects name.
func furtherKinds() []kindRow {
	return []kindRow{
		{"DeviceClass", "deviceclasses", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.ResourceV1().DeviceClasses().List(ctx, o)
		}},
		{"ResourceSlice", "resourceslices", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.ResourceV1().ResourceSlices().List(ctx, o)
		}},
		{"ClusterRoleBinding", "", rare, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object,
			error) {
			return c.RbacV1().ClusterRoleBindings().List(ctx, o)
		}},
		{"CSINode", "", shared, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object, error) {
			return c.StorageV1().CSINodes().List(ctx, o)
		}},
		{"VolumeAttachment", "", shared, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object,
			error) {
			return c.StorageV1().VolumeAttachments().List(ctx, o)
		}},
		{"ValidatingAdmissionPolicy", "validatingadmissionpolicies", rare, func(ctx context.Context, c clientset,
			_ string, o listing) (runtime.Object, error) {
			return c.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, o)
		}},
		{"ValidatingAdmissionPolicyBinding", "", rare, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, o)
		}},
		{"MutatingAdmissionPolicy", "mutatingadmissionpolicies", rare, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.AdmissionregistrationV1().MutatingAdmissionPolicies().List(ctx, o)
		}},
		{"MutatingAdmissionPolicyBinding", "", rare, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().List(ctx, o)
		}},
		{"VolumeAttributesClass", "vac volumeattributesclasses", rare, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.StorageV1().VolumeAttributesClasses().List(ctx, o)
		}},
		{"ClusterTrustBundle", "", rare, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object,
			error) {
			return c.CertificatesV1().ClusterTrustBundles().List(ctx, o)
		}},
		{"Workload", "", inside, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object, error) {
			return c.SchedulingV1beta1().Workloads(ns).List(ctx, o)
		}},
		{"PodGroup", "", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.SchedulingV1beta1().PodGroups(ns).List(ctx, o)
		}},
		{"FlowSchema", "", rare, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object, error) {
			return c.FlowcontrolV1().FlowSchemas().List(ctx, o)
		}},
		{"PriorityLevelConfiguration", "", rare, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.FlowcontrolV1().PriorityLevelConfigurations().List(ctx, o)
		}},
		{"ReplicationController", "rc", inside, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.CoreV1().ReplicationControllers(ns).List(ctx, o)
		}},
		{"PodTemplate", "", inside, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.CoreV1().PodTemplates(ns).List(ctx, o)
		}},
		{"CSIStorageCapacity", "csistoragecapacities", inside, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.StorageV1().CSIStorageCapacities(ns).List(ctx, o)
		}},
		{"IPAddress", "ip ipaddresses", rare, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.NetworkingV1().IPAddresses().List(ctx, o)
		}},
		{"Lease", "", inside, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object, error) {
			return c.CoordinationV1().Leases(ns).List(ctx, o)
		}},
	}
}

// needs are the kinds that are read beside a rare one.
var needs = map[string][]string{
	"RoleBinding":                      {"ClusterRole"},
	"ClusterRoleBinding":               {"ClusterRole"},
	"ValidatingAdmissionPolicy":        {"ValidatingAdmissionPolicyBinding"},
	"ValidatingAdmissionPolicyBinding": {"ValidatingAdmissionPolicy"},
	"MutatingAdmissionPolicy":          {"MutatingAdmissionPolicyBinding"},
	"MutatingAdmissionPolicyBinding":   {"MutatingAdmissionPolicy"},
	"PersistentVolumeClaim":            {"VolumeAttributesClass"},
}

// discoveredRow finds a kind that has no row by what the API serves.
func discoveredRow(c clientset, name string) (kindRow, bool) {
	lists, err := c.Discovery().ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return kindRow{}, false
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	for _, l := range lists {
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || name != r.Name &&
				name != r.SingularName && name != strings.ToLower(r.Kind) && !slices.Contains(r.ShortNames, name) {
				continue
			}
			row := kindRow{kind: r.Kind, scope: rare, list: rawList(path.Join("/apis", l.GroupVersion, r.Name))}
			if !strings.Contains(l.GroupVersion, "/") {
				row.list = rawList(path.Join("/api", l.GroupVersion, r.Name))
			}
			if r.Namespaced {
				row.scope = inside
				group := path.Join("/apis", l.GroupVersion)
				if !strings.Contains(l.GroupVersion, "/") {
					group = path.Join("/api", l.GroupVersion)
				}
				row.list = func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object, error) {
					if ns == "" {
						return rawList(path.Join(group, r.Name))(ctx, c, ns, o)
					}
					return rawList(path.Join(group, "namespaces", ns, r.Name))(ctx, c, ns, o)
				}
			}
			return row, true
		}
	}
	return kindRow{}, false
}

func coreKinds() []kindRow {
	return []kindRow{
		{"ConfigMap", "cm", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.CoreV1().ConfigMaps(ns).List(ctx, o)
		}},
		{"Secret", "", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.CoreV1().Secrets(ns).List(ctx, o)
		}},
		{"ServiceAccount", "sa", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object,
			error) {
			return c.CoreV1().ServiceAccounts(ns).List(ctx, o)
		}},
		{"Service", "svc", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.CoreV1().Services(ns).List(ctx, o)
		}},
		{"EndpointSlice", "", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.DiscoveryV1().EndpointSlices(ns).List(ctx, o)
		}},
		{"PersistentVolumeClaim", "pvc", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.CoreV1().PersistentVolumeClaims(ns).List(ctx, o)
		}},
		{"LimitRange", "limits", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object,
			error) {
			return c.CoreV1().LimitRanges(ns).List(ctx, o)
		}},
		{"ResourceQuota", "quota", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object,
			error) {
			return c.CoreV1().ResourceQuotas(ns).List(ctx, o)
		}},
		{"ResourceClaim", "", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.ResourceV1().ResourceClaims(ns).List(ctx, o)
		}},
		{"ResourceClaimTemplate", "", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.ResourceV1().ResourceClaimTemplates(ns).List(ctx, o)
		}},
	}
}

func workloadKinds() []kindRow {
	return []kindRow{
		{"Deployment", "deploy", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object,
			error) {
			return c.AppsV1().Deployments(ns).List(ctx, o)
		}},
		{"ReplicaSet", "rs", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.AppsV1().ReplicaSets(ns).List(ctx, o)
		}},
		{"StatefulSet", "sts", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.AppsV1().StatefulSets(ns).List(ctx, o)
		}},
		{"DaemonSet", "ds", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.AppsV1().DaemonSets(ns).List(ctx, o)
		}},
		{"ControllerRevision", "", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object,
			error) {
			return c.AppsV1().ControllerRevisions(ns).List(ctx, o)
		}},
		{"Job", "", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object, error) {
			return c.BatchV1().Jobs(ns).List(ctx, o)
		}},
		{"CronJob", "cj", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.BatchV1().CronJobs(ns).List(ctx, o)
		}},
		{"HorizontalPodAutoscaler", "hpa", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.AutoscalingV2().HorizontalPodAutoscalers(ns).List(ctx, o)
		}},
	}
}

func policyKinds() []kindRow {
	return []kindRow{
		{"PodDisruptionBudget", "pdb", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.PolicyV1().PodDisruptionBudgets(ns).List(ctx, o)
		}},
		{"NetworkPolicy", "netpol", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.NetworkingV1().NetworkPolicies(ns).List(ctx, o)
		}},
		{"Ingress", "ing ingresses", namespaced, func(ctx context.Context, c clientset, ns string,
			o listing) (runtime.Object, error) {
			return c.NetworkingV1().Ingresses(ns).List(ctx, o)
		}},
		{"Role", "", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object, error) {
			return c.RbacV1().Roles(ns).List(ctx, o)
		}},
		{"RoleBinding", "", namespaced, func(ctx context.Context, c clientset, ns string, o listing) (runtime.Object,
			error) {
			return c.RbacV1().RoleBindings(ns).List(ctx, o)
		}},
	}
}

func clusterKinds() []kindRow {
	return []kindRow{
		{"PersistentVolume", "pv", shared, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object,
			error) {
			return c.CoreV1().PersistentVolumes().List(ctx, o)
		}},
		{"StorageClass", "sc storageclasses", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.StorageV1().StorageClasses().List(ctx, o)
		}},
		{"CSIDriver", "", shared, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object, error) {
			return c.StorageV1().CSIDrivers().List(ctx, o)
		}},
		{"PriorityClass", "pc priorityclasses", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.SchedulingV1().PriorityClasses().List(ctx, o)
		}},
		{"RuntimeClass", "runtimeclasses", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.NodeV1().RuntimeClasses().List(ctx, o)
		}},
		{"IngressClass", "ingressclasses", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.NetworkingV1().IngressClasses().List(ctx, o)
		}},
		{"Node", "no", shared, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object, error) {
			return c.CoreV1().Nodes().List(ctx, o)
		}},
		{"ClusterRole", "", rare, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object, error) {
			return c.RbacV1().ClusterRoles().List(ctx, o)
		}},
		{"Namespace", "ns", shared, func(ctx context.Context, c clientset, _ string, o listing) (runtime.Object,
			error) {
			return c.CoreV1().Namespaces().List(ctx, o)
		}},
		{"CertificateSigningRequest", "csr", rare, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.CertificatesV1().CertificateSigningRequests().List(ctx, o)
		}},
		{"ValidatingWebhookConfiguration", "", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, o)
		}},
		{"MutatingWebhookConfiguration", "", shared, func(ctx context.Context, c clientset, _ string,
			o listing) (runtime.Object, error) {
			return c.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, o)
		}},
		{"CustomResourceDefinition", "crd", rare, rawList("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")},
		{"APIService", "", rare, rawList("/apis/apiregistration.k8s.io/v1/apiservices")},
	}
}

// rawList reads a kind that the clientset has no type for.
func rawList(at string) func(context.Context, clientset, string, listing) (runtime.Object, error) {
	return func(ctx context.Context, c clientset, _ string, _ listing) (runtime.Object, error) {
		raw, err := c.Discovery().RESTClient().Get().AbsPath(at).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		list := &unstructured.UnstructuredList{}
		return list, list.UnmarshalJSON(raw)
	}
}

// rowOf finds a kind by any of its names: singular, plural, short, with its group.
func rowOf(name string) (kindRow, bool) {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	for _, r := range kindRows() {
		one := strings.ToLower(r.kind)
		if name == one || name == one+"s" || strings.TrimSuffix(name, "ies")+"y" == one ||
			slices.Contains(strings.Fields(r.aliases), name) {
			return r, true
		}
	}
	return kindRow{}, false
}

// kindsText lists the kinds that why knows.
func kindsText() string {
	var out []string
	for _, r := range kindRows() {
		if r.kind != "ControllerRevision" && r.kind != "EndpointSlice" {
			out = append(out, strings.ToLower(r.kind))
		}
	}
	slices.Sort(out)
	return fmt.Sprintf("pod, %s", strings.Join(out, ", "))
}
