package finding

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rule is a row of rules.
type rule struct {
	name  string
	kinds []string // empty: every kind
	find  func(*Cluster, metav1.Object, Object) []Finding
}

// templated are the kinds with a Pod's spec.
var templated = append([]string{"Pod", "CronJob"}, workloadKinds...)

// rules are asked for each object of their kinds.
var rules = []rule{
	{"references", nil, missingReferences},
	{"finalizers", nil, heldByFinalizer},
	{"warnings", nil, warned},
	{"selector", []string{"Service", "PodDisruptionBudget", "NetworkPolicy"}, selectsNothing},
	{"node labels", templated, nodeLabelsMissing},
	{"pod affinity", templated, podAffinityFindsNothing},
	{"capacity", templated, neverFits},
	{"claims", templated, unboundClaims},
	{"limit ranges", templated, limitRanges},
	{"not observed", workloadKinds, notObserved},
	{"roll-out", workloadKinds, rollout},
	{"refused", append([]string{"CronJob"}, workloadKinds...), podsNotMade},
	{"job", []string{"Job"}, job},
	{"schedule", []string{"CronJob"}, cronJob},
	{"service port", []string{"Service"}, servicePort},
	{"endpoints", []string{"Service"}, endpointsBehind},
	{"ingress", []string{"Ingress"}, ingress},
	{"claim", []string{"PersistentVolumeClaim"}, claim},
	{"node", []string{"Node"}, node},
	{"lease", []string{"Lease"}, componentLease},
	{"budget", []string{"PodDisruptionBudget"}, budget},
	{"budgets", []string{"Pod"}, budgetsOverPod},
	{"autoscaler", []string{"HorizontalPodAutoscaler"}, autoscaler},
	{"quota", []string{"ResourceQuota"}, quota},
	{"namespace", []string{"Namespace"}, namespaceEnding},
	{"signing", []string{"CertificateSigningRequest"}, signingRequest},
	{"certificate", []string{"Secret"}, certificateSecret},
	{"webhook", []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}, webhook},
	{"definition", []string{"CustomResourceDefinition", "APIService"}, wrongCondition},
	{"conditions", nil, conditions},
	{"gang", append([]string{"PodGroup"}, templated...), gang},
	{"system", templated, system},
	{"usages", []string{"CertificateSigningRequest"}, signing},
	{"owners", nil, owners},
	{"topology", templated, topology},
	{"tolerations", templated, tolerations},
	{"left out", []string{"DaemonSet"}, leftOut},
	{"probes", templated, probes},
	{"variables", templated, variables},
	{"shell words", templated, shellWords},
	{"mounts", templated, mounts},
	{"parts", templated, parts},
	{"origins", []string{"Pod"}, origins},
	{"quantities", templated, quantities},
	{"hook times", templated, hookTimes},
	{"users", templated, users},
	{"demanded by quota", templated, demanded},
	{"policies", append([]string{"Service"}, templated...), policiesOver},
	{"policy", []string{"NetworkPolicy"}, networkPolicy},
	{"service kind", []string{"Service"}, serviceKind},
	{"governing service", []string{"StatefulSet"}, governing},
	{"hosts", []string{"Ingress"}, hostsOf},
	{"overlap", workloadKinds, overlap},
	{"waiting", workloadKinds, waitsForOthers},
	{"volume", []string{"PersistentVolume"}, volume},
	{"storage class", []string{"StorageClass"}, storageClass},
	{"used claim", []string{"PersistentVolumeClaim"}, usedClaim},
	{"attachment", []string{"VolumeAttachment"}, attachment},
	{"runtime class", []string{"RuntimeClass"}, runtimeClass},
	{"scaling", []string{"HorizontalPodAutoscaler"}, scaling},
	{"full node", []string{"Node"}, fullNode},
	{"expired lease", []string{"Lease"}, lease},
	{"role", []string{"Role", "ClusterRole"}, role},
	{"subjects", []string{"RoleBinding", "ClusterRoleBinding"}, subjects},
	{"webhook rules", []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}, webhookRules},
	{"parameters", []string{"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"}, params},
	{"affinity's selectors", templated, affinitySelectors},
	{"object selectors", []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy",
		"MutatingAdmissionPolicyBinding"}, objectSelectors},
	{"egress ports", []string{"NetworkPolicy"}, egressPorts},
	{"group's parts", []string{"PodGroup", "Job", "CronJob"}, groupParts},
	{"admission policy", []string{"ValidatingAdmissionPolicy"}, admissionPolicy},
	{"mutating policy", []string{"MutatingAdmissionPolicy"}, mutatingPolicy},
	{"admission matches", []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}, admissionMatches},
	{"subjects elsewhere", []string{"RoleBinding", "ClusterRoleBinding"}, subjectsElsewhere},
	{"aggregation", []string{"ClusterRole"}, gathersNothing},
	{"certificate form", []string{"Secret"}, certificateForm},
	{"line ends", templated, lineEnds},
	{"pull hosts", templated, pullHosts},
	{"octal modes", templated, octal},
	{"alias", []string{"Service"}, alias},
	{"node's names", templated, hostNames},
	{"names shut", []string{"NetworkPolicy"}, dnsShut},
	{"slice's Service", []string{"EndpointSlice"}, sliceOwner},
	{"surge", []string{"Deployment", "DaemonSet"}, surge},
	{"taken names", []string{"StatefulSet"}, takenNames},
	{"full names", templated, fullName},
	{"old Pods", workloadKinds, waitsForOldPod},
	{"older templates", []string{"ReplicaSet", "StatefulSet"}, olderTemplates},
	{"taken claims", []string{"Pod"}, takenClaims},
	{"resize", []string{"Pod"}, resize},
	{"metrics", []string{"HorizontalPodAutoscaler"}, metricsServed},
	{"ignored rules", []string{"NetworkPolicy"}, ignoredRules},
	{"hosts without rule", []string{"Ingress"}, hostsWithoutRule},
	{"headless ports", []string{"Service"}, headlessPorts},
	{"endpoints by hand", []string{"EndpointSlice"}, endpointsByHand},
	{"slices by hand", []string{"Service"}, slicesByHand},
	{"shared ports", templated, sharedPorts},
	{"completion index", []string{"Job", "CronJob"}, indexUnset},
	{"external IPs", []string{"Service"}, externalIPs},
	{"loopback ports", templated, loopbackPorts},
	{"claims that go", []string{"StatefulSet"}, claimsGo},
	{"held back", []string{"HorizontalPodAutoscaler"}, heldBack},
	{"changed since", []string{"Pod"}, changedSince},
	{"scaled by", []string{"Deployment", "StatefulSet", "ReplicaSet"}, scaledBy},
	{"files twice", templated, filesTwice},
	{"files in memory", templated, memoryFiles},
	{"unscoped", []string{"Role", "RoleBinding"}, unscoped},
	{"not mounted", []string{"Pod"}, notMounted},
	{"volume health", []string{"Pod"}, podVolumeHealth},
	{"claim's health", []string{"PersistentVolumeClaim"}, claimVolumeHealth},
	{"storage health", []string{"CSINode"}, nodeStorageHealth},
	{"claim for one", workloadKinds, readWriteOncePodShared},
	{"own webhook", []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}, asksAboutItself},
	{"numbers", append([]string{"HorizontalPodAutoscaler"}, templated...), numbersConflict},
	{"edges", templated, numbersAtEdge},
	{"account tokens", []string{"Secret"}, accountToken},
	{"kept running", []string{"Pod"}, keptRunning},
	{"beside the unplaced", []string{"Pod"}, besideUnplaced},
	{"flow rules", []string{"FlowSchema"}, flowRules},
	{"ports of some", []string{"Service"}, namedPortOfSomePods},
	{"shut out", templated, shutOut},
	{"unmade sources", []string{"PersistentVolumeClaim"}, sourceUnserved},
	{"unknown hosts", templated, unknownHosts},
	{"variables twice", templated, namedTwice},
	{"options", templated, optionAsProgram},
	{"ignored failures", []string{"Job"}, failuresIgnored},
	{"held Pods", append([]string{"Job"}, workloadKinds...), heldPods},
	{"serving init containers", []string{"Pod"}, initServes},
	{"shared paths", []string{"Ingress"}, sharedPaths},
	{"files on disk", templated, diskFiles},
	{"device selectors", []string{"Pod"}, deviceSelectors},
	{"device pools", []string{"Pod", "ResourceClaim", "ResourceSlice"}, incompletePools},
	{"own subjects", []string{"RoleBinding", "ClusterRoleBinding"}, ownSubjects},
	{"searches", templated, searches},
	{"draining", []string{"Node"}, draining},
	{"resize errors", []string{"Pod"}, resizeError},
	{"shared labels", []string{"Pod"}, seLinuxShared},
	{"mount options", []string{"PersistentVolume", "PersistentVolumeClaim"}, optionsUnserved},
	{"adopted", []string{"Job", "ReplicaSet", "DaemonSet"}, adopted},
	{"manual selectors", []string{"Job"}, manualOverlap},
	{"binary keys", templated, binaryKeys},
	{"ordered waits", []string{"StatefulSet"}, orderedWait},
}

// Of returns what is wrong with one object and with what it controls, worst first.
func Of(c *Cluster, self Object) []Finding {
	o := c.Get(self)
	if o == nil {
		return nil
	}
	out := of(c, o, self)
	for _, kind := range []string{"ReplicaSet", "Job", "Pod"} {
		for _, x := range owned[metav1.Object](c, kind, o) {
			if superseded(x) {
				continue
			}
			out = append(out, of(c, x, objectOf(kind, x))...)
		}
	}
	if self.Kind == "Deployment" || self.Kind == "CronJob" {
		for _, p := range c.podsOf(o) {
			out = append(out, of(c, p, objectOf("Pod", p))...)
		}
	}
	out = append(out, c.components(self)...)
	out = append(out, c.referencedFindings(self)...)
	return Roots(out)
}

// components are the leases of what works on an object.
func (c *Cluster) components(self Object) []Finding {
	var out []Finding
	for _, o := range c.Objects["Lease"] {
		if o.GetNamespace() != metav1.NamespaceSystem || self.Kind == "Lease" {
			continue
		}
		out = append(out, componentLease(c, o, objectOf("Lease", o))...)
	}
	return out
}

func of(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	for _, r := range rules {
		if len(r.kinds) == 0 || slices.Contains(r.kinds, self.Kind) {
			out = append(out, r.find(c, o, self)...)
		}
	}
	for i := range out {
		out[i].root = c.outermost(o, self)
	}
	return out
}

// All returns what is wrong with everything in a namespace, or in the whole cluster where that is
// empty, worst first; what follows from another finding is said once.
func All(c *Cluster, namespace string) []Finding {
	var out []Finding
	for _, kind := range c.sortedKinds() {
		for _, o := range c.Objects[kind] {
			elsewhere := kind == "Namespace" && o.GetName() != namespace
			if superseded(o) {
				continue
			}
			if namespace == "" || o.GetNamespace() == namespace || o.GetNamespace() == "" && !elsewhere {
				out = append(out, of(c, o, objectOf(kind, o))...)
			}
		}
	}
	return Roots(out)
}

// Roots sorts findings and leaves each cause once: the same code about the same thing, said of a
// Pod, its ReplicaSet and its Deployment, is one cause of the outermost.
func Roots(list []Finding) []Finding {
	rank := map[string]int{"Deployment": 0, "StatefulSet": 0, "DaemonSet": 0, "CronJob": 0, "Job": 1, "ReplicaSet": 1,
		"Pod": 2}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Finding) int { return rank[a.Object.Kind] - rank[b.Object.Kind] })
	seen := map[string]bool{}
	var out []Finding
	for _, f := range list {
		key := f.Code + "\n" + f.Object.Namespace + "\n" + f.Value + "\n" + tail(f.Field)
		if _, made := rank[f.Object.Kind]; !made || f.Value == "" {
			key += "\n" + f.Object.String() + f.Message
		} else {
			key += "\n" + f.Root().String()
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, f)
		}
	}
	for i := range out {
		out[i].withNumbers()
		out[i].withoutOr()
	}
	Sort(out)
	return out
}

// tail is a field's path below the Pod's spec, which a template and its Pods share.
func tail(field string) string {
	for i := 0; i+5 <= len(field); i++ {
		if rest := field[len(field)-i:]; len(rest) > 5 && rest[:5] == "spec." {
			return rest
		}
	}
	return field
}
