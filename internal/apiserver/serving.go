package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/component-base/metrics/prometheus/compatversion"
	"k8s.io/component-base/metrics/prometheus/feature"

	"github.com/gantry-project/gantry/internal/apiserver/certreload"
	"github.com/gantry-project/gantry/internal/apiserver/scheme"
	"github.com/gantry-project/gantry/internal/apiserver/watchbatching"
	"github.com/gantry-project/gantry/internal/features"
)

// setFeatureGates sets the library's feature gates. They are global: all servers of a process have
// the same.
func setFeatureGates(f features.Features) error {
	if f.CBORServingAndStorage && !utilfeature.DefaultFeatureGate.Enabled(genericfeatures.CBORServingAndStorage) {
		if err := utilfeature.DefaultMutableFeatureGate.Set(string(genericfeatures.CBORServingAndStorage) +
			"=true"); err != nil {
			return fmt.Errorf("feature CBORServingAndStorage: %w", err)
		}
	}
	recordFeatureMetrics(f)
	return nil
}

// recordFeatureMetrics sets kubernetes_feature_enabled, for the library's gates and Gantry's own,
// and version_info.
func recordFeatureMetrics(f features.Features) {
	utilfeature.DefaultMutableFeatureGate.AddMetrics()
	ctx := context.Background()
	feature.RecordFeatureInfo(ctx, "GenericWorkload", "BETA", f.GenericWorkload)
	feature.RecordFeatureInfo(ctx, "CSIVolumeHealth", "ALPHA", f.CSIVolumeHealth)
	feature.RecordFeatureInfo(ctx, "HPAScaleToZero", "BETA", !f.NoHPAScaleToZero)
	feature.RecordFeatureInfo(ctx, "PersistentVolumeClaimUnusedSinceTime", "BETA",
		!f.NoPersistentVolumeClaimUnusedSinceTime)
	feature.RecordFeatureInfo(ctx, "CrossNamespaceVolumeDataSource", "ALPHA", f.CrossNamespaceVolumeDataSource)
	e := newEffectiveVersion(false)
	binary, emulated, least := e.BinaryVersion().String(), e.EmulationVersion().String(),
		e.MinCompatibilityVersion().String()
	if f.V136 {
		emulated, least = "1.36", "1.35"
	}
	compatversion.RecordCompatVersionInfo(ctx, "kube", binary, emulated, least)
}

// makeSecureServing returns how the port serves TLS: the serving pair and the authorities of client
// certificates, both reloaded when their files change. Errors are *BadFile.
func (b *builder) makeSecureServing() (*genericapiserver.SecureServingInfo, error) {
	f := b.config.Files
	out := &genericapiserver.SecureServingInfo{Listener: watchbatching.Listener{Listener: b.server.listener}}
	var err error
	if f.Cert == "" {
		out.Cert, err = selfSignedCertificate(b.server.listener.Addr())
	} else {
		out.Cert, err = certreload.NewCertKeyContent("serving-cert", f.Cert, f.Key)
	}
	if err != nil {
		return nil, &BadFile{What: "serving certificate", Path: f.Cert, Err: err}
	}
	for name, path := range map[string]string{"client-ca": f.ClientCA, "request-header-ca": f.RequestHeaderCA} {
		if path == "" {
			continue
		}
		ca, err := certreload.NewCAContent(name, path)
		if err != nil {
			return nil, &BadFile{What: "client certificate authority", Path: path, Err: err}
		}
		if out.ClientCA == nil {
			out.ClientCA = ca
		} else {
			out.ClientCA = dynamiccertificates.NewUnionCAContentProvider(out.ClientCA, ca)
		}
	}
	return out, nil
}

// selfSignedCertificate returns a certificate for this run only, for servers that only in-process
// clients and tests use.
func selfSignedCertificate(addr net.Addr) (dynamiccertificates.CertKeyContentProvider, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if a, ok := addr.(*net.TCPAddr); ok {
		ips = append(ips, a.IP)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gantry self-signed"},
		DNSNames: []string{"localhost"}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return dynamiccertificates.NewStaticCertKeyContent("self-signed",
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// hostAddress returns the address by which other machines reach this one.
func hostAddress(listen net.Addr) netip.Addr {
	if a, ok := listen.(*net.TCPAddr); ok && !a.IP.IsUnspecified() {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			return ip.Unmap()
		}
	}
	if ip, err := utilnet.ChooseHostInterface(); err == nil {
		if a, ok := netip.AddrFromSlice(ip); ok {
			return a.Unmap()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// servedVersions returns the group versions of the scheme and of the other servers of the chain.
func servedVersions(s *scheme.Scheme) []schema.GroupVersion {
	return append(s.Served.PrioritizedVersionsAllGroups(),
		schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"},
		schema.GroupVersion{Group: "apiregistration.k8s.io", Version: "v1"},
	)
}
