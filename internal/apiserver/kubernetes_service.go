package apiserver

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	kubernetesService  = "kubernetes"
	defaultServiceCIDR = "10.96.0.0/16"
)

// servingPort returns the port that this server listens on.
func (b *builder) servingPort() int32 {
	if a, ok := b.server.listener.Addr().(*net.TCPAddr); ok {
		return int32(a.Port)
	}
	return 443
}

// ensureKubernetesService creates the kubernetes Service and points its endpoints at this server.
func (b *builder) ensureKubernetesService(ctx context.Context) error {
	labels := map[string]string{"component": "apiserver", "provider": "kubernetes"}
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: kubernetesService, Namespace: metav1.NamespaceDefault, Labels: labels},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: b.serviceIP(), ClusterIPs: []string{b.serviceIP()},
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443,
				TargetPort: intstr.FromInt32(b.servingPort())}},
		},
	}
	if n := b.config.Services.KubernetesNodePort; n > 0 {
		svc.Spec.Type, svc.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(n)
	}
	services := b.client.CoreV1().Services(metav1.NamespaceDefault)
	old, err := services.Get(ctx, kubernetesService, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = services.Create(ctx, svc, metav1.CreateOptions{})
	case err == nil && !apiequality.Semantic.DeepEqual(old.Spec.Ports, svc.Spec.Ports):
		old = old.DeepCopy()
		old.Spec.Ports = svc.Spec.Ports
		_, err = services.Update(ctx, old, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("service %s: %w", kubernetesService, err)
	}
	if b.advertise.IsLoopback() {
		return nil // validation rejects such an endpoint, and no Pod could reach it
	}
	if err := b.ensureKubernetesEndpoints(ctx); err != nil {
		return err
	}
	return b.ensureKubernetesEndpointSlice(ctx)
}

// ensureKubernetesEndpoints creates or updates the Endpoints of the kubernetes Service.
func (b *builder) ensureKubernetesEndpoints(ctx context.Context) error {
	want := &corev1.Endpoints{ //nolint:staticcheck // upstream writes both forms
		ObjectMeta: metav1.ObjectMeta{
			Name: kubernetesService, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"},
		},
		Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // the legacy kind is the point
			Addresses: []corev1.EndpointAddress{{IP: b.advertise.String()}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: b.servingPort(), Protocol: corev1.ProtocolTCP}},
		}},
	}
	client := b.client.CoreV1().Endpoints(metav1.NamespaceDefault)
	old, err := client.Get(ctx, kubernetesService, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && !apiequality.Semantic.DeepEqual(old.Subsets, want.Subsets):
		want.ResourceVersion = old.ResourceVersion
		_, err = client.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("endpoints %s: %w", kubernetesService, err)
	}
	return nil
}

// ensureKubernetesEndpointSlice creates or updates the EndpointSlice of the kubernetes Service.
func (b *builder) ensureKubernetesEndpointSlice(ctx context.Context) error {
	family := discoveryv1.AddressTypeIPv4
	if b.advertise.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: kubernetesService, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelServiceName: kubernetesService},
		},
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{b.advertise.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(b.servingPort()),
			Protocol: new(corev1.ProtocolTCP)}},
	}
	client := b.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	old, err := client.Get(ctx, kubernetesService, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && old.AddressType != want.AddressType:
		if err = client.Delete(ctx, kubernetesService, metav1.DeleteOptions{}); err == nil {
			_, err = client.Create(ctx, want, metav1.CreateOptions{})
		}
	case err == nil && !(apiequality.Semantic.DeepEqual(old.Endpoints, want.Endpoints) &&
		apiequality.Semantic.DeepEqual(old.Ports, want.Ports)):
		want.ResourceVersion = old.ResourceVersion
		_, err = client.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("endpoint slice %s: %w", kubernetesService, err)
	}
	return nil
}
