package finding

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// apiKinds are kinds that people write, with the types of their objects. Of those with a Pod
// template the template is looked at once, as that of a Pod.
func apiKinds() []metav1.Object {
	return []metav1.Object{&corev1.Pod{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.Secret{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.ResourceQuota{}, &corev1.LimitRange{},
		&corev1.Node{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.ReplicaSet{},
		&batchv1.Job{}, &batchv1.CronJob{}, &autoscalingv2.HorizontalPodAutoscaler{}, &networkingv1.Ingress{},
		&networkingv1.IngressClass{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{},
		&rbacv1.Role{}, &rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{},
		&storagev1.StorageClass{}, &storagev1.CSIDriver{}, &storagev1.VolumeAttachment{},
		&storagev1.VolumeAttributesClass{}, &schedulingv1.PriorityClass{}, &schedulingv1beta1.PodGroup{},
		&nodev1.RuntimeClass{}, &admissionv1.ValidatingAdmissionPolicy{},
		&admissionv1.ValidatingAdmissionPolicyBinding{}, &admissionv1.MutatingAdmissionPolicy{},
		&admissionv1.MutatingAdmissionPolicyBinding{}, &admissionv1.ValidatingWebhookConfiguration{},
		&admissionv1.MutatingWebhookConfiguration{}, &certificatesv1.CertificateSigningRequest{},
		&discoveryv1.EndpointSlice{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{},
		&resourcev1.DeviceClass{}, &flowcontrolv1.FlowSchema{}, &flowcontrolv1.PriorityLevelConfiguration{},
		&storagev1.CSIStorageCapacity{}, &networkingv1.IPAddress{}}
}

// step is a field on the way from an object to a value.
type step struct {
	of    reflect.Type // the struct that has it
	index int
}

// apiField is a field of a kind of the API.
type apiField struct {
	kind  string
	path  string // as in findings, with [0] for each list
	steps []step
}

// key names the field without indices.
func (f apiField) key() string { return f.kind + "." + strings.ReplaceAll(f.path, "[0]", "") }

// fieldsOf walks the types of an object and returns the fields that want says.
func fieldsOf(o metav1.Object, want func(of reflect.Type, f reflect.StructField) bool) []apiField {
	root := reflect.TypeOf(o).Elem()
	var out []apiField
	var walk func(x reflect.Type, at apiField, within []reflect.Type)
	walk = func(x reflect.Type, at apiField, within []reflect.Type) {
		if slices.Contains(within, x) {
			return
		}
		within = append(slices.Clone(within), x)
		for i := range x.NumField() {
			f := x.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Name == "Status" || f.Name == "TypeMeta" || f.Name == "ObjectMeta" ||
				f.Type == reflect.TypeFor[corev1.PodTemplateSpec]() {
				continue
			}
			next := apiField{kind: root.Name(), path: at.path, steps: append(slices.Clone(at.steps), step{x, i})}
			if name != "" {
				next.path = strings.TrimPrefix(at.path+"."+name, ".")
			}
			e := f.Type
			for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
				if e.Kind() == reflect.Slice {
					next.path += "[0]"
				}
				e = e.Elem()
			}
			if want(x, f) {
				out = append(out, next)
			}
			if e.Kind() == reflect.Struct {
				walk(e, next, within)
			}
		}
	}
	walk(root, apiField{kind: root.Name()}, nil)
	return out
}

// set makes everything on the way to a field, with what siblings a struct of its type needs beside,
// and gives the field a text.
func (f apiField) set(o metav1.Object, text string) {
	v, beside := reflect.ValueOf(o).Elem(), siblings()
	for _, s := range f.steps {
		v = v.Field(s.index)
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			if v.Kind() == reflect.Slice {
				if v.Len() == 0 {
					v.Set(reflect.MakeSlice(v.Type(), 1, 1))
				}
				v = v.Index(0)
				continue
			}
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		if fill, ok := beside[v.Type()]; ok {
			v.Set(fill)
		}
	}
	if v.Type() == reflect.TypeFor[[]string]() {
		v.Set(reflect.ValueOf([]string{text}))
		return
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Type() == reflect.TypeFor[intstr.IntOrString]():
		v.Set(reflect.ValueOf(intstr.FromString(text)))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	}
}

// siblings lists what structs have so that their other fields mean something.
func siblings() map[reflect.Type]reflect.Value {
	out := map[reflect.Type]reflect.Value{}
	for _, x := range []any{
		corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim"},
		corev1.TypedObjectReference{Kind: "PersistentVolumeClaim"},
		autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", APIVersion: "apps/v1", Name: there},
		autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
			Kind: "Deployment", APIVersion: "apps/v1", Name: there}},
		rbacv1.RoleRef{Kind: "ClusterRole"},
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: "shop", Name: there},
		corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: there}},
		corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: there}},
		corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: there}},
		corev1.SecretVolumeSource{SecretName: there},
		corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: there}},
		corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: there}},
		corev1.SecretReference{Name: there, Namespace: "shop"},
		corev1.ObjectReference{Kind: "Pod", Name: there, Namespace: "shop"},
		corev1.AzureFilePersistentVolumeSource{SecretName: there, SecretNamespace: new("shop")},
		corev1.StorageOSPersistentVolumeSource{SecretRef: &corev1.ObjectReference{Name: there, Namespace: "shop"}},
		admissionv1.ServiceReference{Name: there, Namespace: "shop"},
		admissionv1.ParamRef{Name: there, Namespace: "shop"},
		admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: there},
		admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: there},
		admissionv1.RuleWithOperations{Rule: admissionv1.Rule{APIGroups: []string{""}}},
		admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Rule: admissionv1.Rule{APIGroups: []string{""}}}},
		networkingv1.IngressServiceBackend{Name: there},
		networkingv1.IngressClassParametersReference{Kind: "ConfigMap", Name: there, Namespace: new("shop")},
		networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP)},
		corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass,
			Operator: corev1.ScopeSelectorOpIn},
		corev1.Container{Name: "app"},
		corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
			Values: []string{"v"}},
		corev1.TopologySelectorLabelRequirement{Key: "k", Values: []string{"v"}},
		metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web"}},
		corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: []string{"get"}, Resources: []string{"services"}},
		corev1.Toleration{Operator: corev1.TolerationOpExists},
		schedulingv1beta1.WorkloadReference{WorkloadName: there},
		flowcontrolv1.ServiceAccountSubject{Namespace: "shop", Name: there},
		flowcontrolv1.ResourcePolicyRule{APIGroups: []string{""}},
		networkingv1.ParentReference{Resource: "services", Namespace: "shop", Name: there},
	} {
		out[reflect.TypeOf(x)] = reflect.ValueOf(x)
	}
	return out
}

// there is the name of an object of each kind that has a place in the cluster of the tests.
const there = "there.example.com"

// names matches fields that may name something, by their names in Go.
var namesSomething = regexp.MustCompile(`(Name|Names|Key|Keys|Namespaces?|Driver|Attacher|Provisioner|Container|` +
	`Subdomain|Class|Handler|Controller|TargetPort|Port|Resource|Resources|Request|Requests|Reference|Values|` +
	`FieldPath|ManagedBy|Kind|APIGroup|APIVersion|ConditionType)$`)

func mayName(_ reflect.Type, f reflect.StructField) bool {
	e := f.Type
	for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
		e = e.Elem()
	}
	return (e.Kind() == reflect.String || e == reflect.TypeFor[intstr.IntOrString]()) &&
		namesSomething.MatchString(f.Name)
}

// Reasons why nothing follows a field that may name something.
const (
	itsOwn   = "it is the own name of the part that has it"
	freeText = "it is free text, or one of a few words that the API server checks"
	checked  = "the API server refuses one that is not there"
	written  = "the API server or a controller writes it"
	outside  = "what it names is not in the cluster"
	removed  = "the kubelet has no plugin for such volumes"
	toCome   = "it may be about what is made later"
	byState  = "what a component says about it is told instead"
	ofPods   = "it is told of the Pods or claims that are made of it"
)

// notFollowed are fields that name something and that no finding follows, with the reason; * stands
// for any letters.
var notFollowed = []struct{ pattern, reason string }{
	{"*ontainers.name", itsOwn}, {"*volumes.name", itsOwn}, {"*orts.name", itsOwn}, {"*env.name", itsOwn},
	{"Pod.spec.resourceClaims.name", itsOwn}, {"*cheduling.resourceClaims.name", itsOwn},
	{"PodGroup.spec.resourceClaims.name", itsOwn}, {"*requests.name", itsOwn}, {"*firstAvailable.name", itsOwn},
	{"*webhooks.name", itsOwn}, {"*variables.name", itsOwn}, {"*matchConditions.name", itsOwn},
	{"*auditAnnotations.key", itsOwn}, {"*derivedAttributes.name", itsOwn},
	{"DeviceClass.spec.extendedResourceName", itsOwn}, {"*evictionResponders.name", freeText},
	{"*httpHeaders.name", freeText}, {"*dnsConfig.options.name", freeText}, {"*.apiGroup", checked},
	{"*fieldRef.apiVersion", checked}, {"*resourceFieldRef.resource", checked}, {"*resizePolicy.resourceName", checked},
	{"*fileKeyRef.volumeName", checked}, {"*fileKeyRef.key", "the file is made while the Pod runs"},
	{"*resources.claims.name", checked}, {"*resources.claims.request", checked}, {"*volumeMounts.name", checked},
	{"*volumeDevices.name", checked}, {"*targetContainerName", checked}, {"*onExitCodes.containerName", checked},
	{"*constraints.requests", checked}, {"*config.requests", checked}, {"*roleRef.kind", checked},
	{"*scopeSelector.matchExpressions.scopeName", checked}, {"*os.name", byState},
	{"*matchFields.key", checked}, {"Deployment.spec.selector.*", checked}, {"StatefulSet.spec.selector.*", checked},
	{"DaemonSet.spec.selector.*", checked}, {"ReplicaSet.spec.selector.*", checked}, {"*ob*.spec.selector.*", written},
	{"Pod.spec.ephemeralContainers.*robe.*", checked}, {"Pod.spec.ephemeralContainers.lifecycle.*", checked},
	{"Pod.spec.ephemeralContainers.env.*", "a container for a look at others starts without"},
	{"*lifecycle.*.tcpSocket.port", "the kubelet never asks it"}, {"*windowsOptions.*", "nodes run Linux"},
	{"*preferredDuringSchedulingIgnoredDuringExecution.preference.matchFields.values", "a wish for one node"},
	{"*schedulerName", byState}, {"*readinessGates.conditionType", byState}, {"*schedulingGates.name", byState},
	{"*sysctls.name", byState}, {"*loadBalancerClass", byState}, {"*signerName", byState},
	{"*image.reference", byState}, {"*clusterTrustBundle.labelSelector.*", byState},
	{"HorizontalPodAutoscaler.spec.scaleTargetRef.*", byState}, {"*metrics.resource.name", byState},
	{"*metrics.containerResource.name", byState}, {"*metric.selector.*", outside},
	{"*externalName", outside}, {"*iscsi.initiatorName", outside}, {"*pdName", removed}, {"*glusterfs.*", removed},
	{"*flexVolume.driver", "it is a program on the node"}, {"*flocker.*", removed}, {"*azure*", removed},
	{"*vsphereVolume.*", removed}, {"*scaleIO.*", removed}, {"*storageos.*", removed},
	{"VolumeAttachment.spec.source.inlineVolumeSpec.*", written}, {"PersistentVolume.spec.claimRef.*", written},
	{"ClusterRoleBinding.subjects.kind", checked}, {"*describedObject.apiVersion", byState},
	{"*describedObject.kind", "of kinds that are not read nothing is said"}, {"*resource.kind",
		"of kinds that are not read nothing is said"}, {"*dataSource*.kind", byState},
	{"*volumeClaimTemplate*.dataSourceRef.namespace", byState}, {"*dataSourceRef.namespace", byState},
	{"*volumeClaimTemplate*.selector.*", ofPods}, {"PersistentVolume.spec.storageClassName",
		"it is a word for claims to name; no class need be there"}, {"Node.spec.configSource.*", "no kubelet reads it"},
	{"ServiceAccount.secrets.*", "nothing needs what it lists"}, {"IngressClass.spec.controller", outside},
	{"IngressClass.spec.parameters.kind", "of kinds that are not read nothing is said"},
	{"PodGroup.spec.parentCompositePodGroupName", "nothing serves CompositePodGroups"},
	{"*paramKind.*", "of kinds that are not read nothing is said"}, {"*ResourceRules.resourceNames", toCome},
	{"*resourceRules.resourceNames", toCome}, {"ClusterRole.rules.resourceNames", "it is about every namespace"},
	{"EndpointSlice.endpoints.targetRef.*", written}, {"EndpointSlice.endpoints.nodeName", "it is a hint for routing"},
	{"EndpointSlice.endpoints.hints.*", "it is a hint for routing"},
	{"Resource*.tolerations.key", "taints of devices are not read"},
	{"FlowSchema.spec.rules.subjects.kind", checked}, {"FlowSchema.spec.rules.subjects.user.name", outside},
	{"FlowSchema.spec.rules.subjects.group.name", outside}, {"IPAddress.spec.parentRef.resource",
		"of kinds that are not read nothing is said"}, {"CSIStorageCapacity.nodeTopology.*", written},
	{"*config.opaque.driver", "drivers of devices have no objects"},
}

// notFollowedRow finds the row of a field.
func notFollowedRow(key string) (int, bool) {
	for i, row := range notFollowed {
		if ok, err := path.Match(row.pattern, key); ok && err == nil {
			return i, true
		}
	}
	return 0, false
}

// Every field of the API that names something is followed: a name that is nowhere is told of with
// the field. Or a row of notFollowed says why not, and none says it of nothing.
func TestEveryReferenceOfTheAPIIsFollowed(t *testing.T) {
	used := map[int]bool{}
	for _, o := range apiKinds() {
		for _, f := range fieldsOf(o, mayName) {
			row, excused := notFollowedRow(f.key())
			told, _ := follows(o, f)
			if !told && !excused {
				t.Errorf("%s names something that nothing follows", f.key())
			} else if !told {
				used[row] = true
			}
		}
	}
	for i, row := range notFollowed {
		if !used[i] {
			t.Errorf("no field that is not followed is %s", row.pattern)
		}
	}
}

// goneName is a name of nothing, and near to one.
const goneName = "ther.example.com"

// follows reports whether a finding tells of a name that is nowhere, and which.
func follows(o metav1.Object, f apiField) (bool, string) {
	x := reflect.New(reflect.TypeOf(o).Elem()).Interface().(metav1.Object)
	text := goneName
	if strings.HasSuffix(f.path, "fieldPath") {
		text = "metadata.labels['" + goneName + "']"
	}
	f.set(x, text)
	c := wholeCluster(x)
	for _, y := range Of(c, objectOf(f.kind, x)) {
		if strings.Contains(fmt.Sprint(y.Value, y.Related, y.Numbers), goneName) {
			return true, y.Code + " " + y.Field
		}
	}
	return false, ""
}

// kindsRead are kinds that were read and of which nothing is there.
var kindsRead = []string{"PriorityClass", "RuntimeClass", "IngressClass", "DeviceClass", "ResourceClaim",
	"ResourceClaimTemplate", "PodGroup", "VolumeAttributesClass", "StatefulSet", "DaemonSet", "ReplicaSet", "Job",
	"CSINode", "EndpointSlice", "PriorityLevelConfiguration", "Lease", "ClusterTrustBundle", "StorageClass"}

// wholeCluster is a cluster in which an object is, every kind was read, and one object of most
// kinds is there.
func wholeCluster(o metav1.Object) *Cluster {
	c := &Cluster{Now: now}
	c.Add("Namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	for _, kind := range kindsRead {
		c.Add(kind)
	}
	in := func(x metav1.Object, namespace string) {
		x.SetName(there)
		x.SetNamespace(namespace)
		c.Add(reflect.TypeOf(x).Elem().Name(), x)
	}
	configMaps := &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	in(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{there: "web", "app": there}},
		Data: map[string]string{there: "x"}}, "shop")
	in(&corev1.Secret{Data: map[string][]byte{there: nil}}, "shop")
	in(&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: there, Port: 80}}}}, "shop")
	in(&corev1.PersistentVolumeClaim{}, "shop")
	in(&corev1.PersistentVolume{}, "")
	in(&corev1.ServiceAccount{}, "shop")
	in(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: there}}}}}}, "shop")
	in(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{there: "x"}}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: there, Effect: corev1.TaintEffectNoSchedule}}}, Status: corev1.NodeStatus{
		RuntimeHandlers: []corev1.NodeRuntimeHandler{{Name: there}}}}, "")
	in(&rbacv1.ClusterRole{}, "")
	in(&rbacv1.Role{}, "shop")
	in(&storagev1.CSIDriver{}, "")
	in(&admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{
		ParamKind: configMaps}}, "")
	in(&admissionv1.MutatingAdmissionPolicy{Spec: admissionv1.MutatingAdmissionPolicySpec{ParamKind: configMaps}}, "")
	in(&schedulingv1beta1.Workload{Spec: schedulingv1beta1.WorkloadSpec{
		PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{{Name: there}}}}, "shop")
	in(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: there, Containers: []corev1.Container{{Name: "app",
			Ports: []corev1.ContainerPort{{Name: there, ContainerPort: 8080}}}}}}, "shop")
	c.Served = Served{"": {"pods", "services"}}
	c.Unscoped = Served{"": {"nodes"}}
	kind := reflect.TypeOf(o).Elem().Name()
	o.SetName("x")
	if !clusterKinds[kind] {
		o.SetNamespace("shop")
	}
	c.Add(kind, o)
	return c
}
