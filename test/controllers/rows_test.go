package controllers_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/control/clustertrustbundlepublisher"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// rows are the controllers of control.All at work.
var rows = slicesOf(rowsOfNamespaces, rowsOfWorkloads, rowsOfNodes, rowsOfVolumes, rowsOfServices, rowsOfRest,
	rowsOfHandMade)

func slicesOf(parts ...[]row) (out []row) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// rootCA is a certificate authority in PEM.
var rootCA = sync.OnceValue(func() string {
	for {
		public, key, _ := ed25519.GenerateKey(rand.Reader)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		der, _ := x509.CreateCertificate(rand.Reader, template, template, public, key)
		inPEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		if !strings.Contains(inPEM, "NS") { // which stands for something else in a manifest
			return inPEM
		}
	}
})

// certificateRequest is a PKCS#10 request without a subject, in DER and in PEM, as manifests have
// them.
func certificateRequest() (der, inPEM string) {
	for {
		_, key, _ := ed25519.GenerateKey(rand.Reader)
		raw, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw})
		der, inPEM = base64.StdEncoding.EncodeToString(raw), base64.StdEncoding.EncodeToString(block)
		if !strings.Contains(der+inPEM, "NS") { // which stands for something else in a manifest
			return der, inPEM
		}
	}
}

// aDayLater sets a controller's clock.
func aDayLater(c *controllerruntime.ControllerContext) {
	c.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
}

func nothing(*instance) {}

var rowsOfNamespaces = []row{
	{name: "serviceaccount", steps: []step{
		{nothing, exists("ServiceAccount/default")},
		{deletes("ServiceAccount/default"), exists("ServiceAccount/default")}}},
	{name: "rootca", steps: []step{
		{nothing, hasRootCA},
		{patches("ConfigMap/kube-root-ca.crt", `{"data":{"ca.crt":"another's"}}`), hasRootCA},
	}},
	{name: "namespace", steps: []step{
		{func(w *instance) {
			w.make(pod("p", "") + "---\n" + configMap("a") + "---\n" + configMap("b"))
			w.delete("Namespace/NS")
		}, isGone("Namespace/NS")}}},
	{name: "clustertrustbundle", sole: "kubernetes.io:kube-apiserver-serving", steps: []step{
		{func(w *instance) {
			_ = w.client("ClusterTrustBundle").DeleteCollection(w.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, hasBundle}}},
	{name: "certcleaner", set: aDayLater, steps: []step{
		{func(w *instance) {
			_, request := certificateRequest()
			w.make("kind: CertificateSigningRequest\nmetadata: {name: NS-old}\nspec:\n" +
				"  signerName: example.com/x\n  usages: [client auth]\n  request: " + request)
		}, isGone("CertificateSigningRequest/NS-old")}}},
	{name: "podcertcleaner", set: aDayLater, steps: []step{
		{func(w *instance) {
			request, _ := certificateRequest()
			w.make("kind: PodCertificateRequest\nmetadata: {name: old}\nspec:\n  signerName: example.com/x\n" +
				"  podName: p\n  podUID: '1'\n  serviceAccountName: default\n  serviceAccountUID: '2'\n" +
				"  nodeName: some-node\n  nodeUID: '3'\n  maxExpirationSeconds: 86400\n  stubPKCS10Request: " + request)
		}, isGone("PodCertificateRequest/old")}}},
	{name: "ownergc", steps: []step{
		{func(w *instance) {
			for _, how := range []string{"background", "foreground", "orphan"} {
				w.make(configMap(how))
				uid := w.get("ConfigMap/" + how).GetUID()
				w.make(fmt.Sprintf("kind: ConfigMap\nmetadata:\n  name: of-%s\n  ownerReferences:\n  - "+
					"{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s, blockOwnerDeletion: true}", how, how, uid))
			}
		}, exists("ConfigMap/of-orphan")},
		{func(w *instance) {
			for _, how := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground,
				metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
				w.must(w.client("ConfigMap").Delete(w.ctx, strings.ToLower(string(how)),
					metav1.DeleteOptions{PropagationPolicy: &how}))
			}
		}, allOf(isGone("ConfigMap/background"), isGone("ConfigMap/of-background"), isGone("ConfigMap/foreground"),
			isGone("ConfigMap/of-foreground"), isGone("ConfigMap/orphan"), exists("ConfigMap/of-orphan"),
			fieldIs("ConfigMap/of-orphan", "metadata.ownerReferences", ""))}}},
	{name: "clusterroles", steps: []step{
		{makes(`kind: ClusterRole
metadata: {name: NS-part, labels: {in: NS}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
kind: ClusterRole
metadata: {name: NS-all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {in: NS}}]}
`), fieldIs("ClusterRole/NS-all", "rules[0].resources", "[pods]")},
		{patches("ClusterRole/NS-part", `{"rules":[{"apiGroups":[""],"resources":["nodes"],"verbs":["get"]}]}`),
			fieldIs("ClusterRole/NS-all", "rules[0].resources", "[nodes]")}}},
}

func hasRootCA(w *instance) error {
	return w.fieldIs("ConfigMap/kube-root-ca.crt", "data.ca/crt", rootCA())
}

func hasBundle(w *instance) error {
	return w.fieldIs("ClusterTrustBundle/"+clustertrustbundlepublisher.Name(clustertrustbundlepublisher.Signer,
		rootCA()),
		"spec.trustBundle", rootCA())
}

func configMap(name string) string { return "kind: ConfigMap\nmetadata: {name: " + name + "}\n" }

// pod is a manifest of a Pod, bound if there is a node.
func pod(name, node string) string {
	text := "kind: Pod\nmetadata: {name: " + name + ", labels: {app: " + name + "}}\n" +
		"spec:\n  terminationGracePeriodSeconds: 0\n  containers: [{name: c, image: web}]\n"
	if node != "" {
		text += "  nodeName: " + node + "\n"
	}
	return text
}
