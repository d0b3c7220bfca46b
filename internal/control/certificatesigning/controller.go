package certificatesigning

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Options configure Run. The client needs the rights of the ClusterRole
// system:controller:certificate-controller.
type Options struct {
	Client   kubernetes.Interface
	Informer certinformers.CertificateSigningRequestInformer
	// Cert and Key are the PEM files of the CA; they are read at each signing, so a renewed CA is
	// used at once.
	Cert, Key string
	Now       func() time.Time // default time.Now
}

// Run approves and signs until ctx ends.
func Run(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(obj any) {
		if r, ok := obj.(*certificatesv1.CertificateSigningRequest); ok {
			queue.Add(r.Name)
		}
	}
	reg, err := o.Informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add,
		UpdateFunc: func(_, now any) { add(now) }})
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	defer func() { _ = o.Informer.Informer().RemoveEventHandler(reg) }()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		return nil
	}
	log := klog.FromContext(ctx)
	log.V(2).Info("Signing certificates", "signers", signerNames())
	for {
		name, end := queue.Get()
		if end {
			return nil
		}
		if err := o.sync(ctx, name); err != nil && ctx.Err() == nil {
			log.Error(err, "CertificateSigningRequest is tried again", "request", name)
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

func (o Options) sync(ctx context.Context, name string) error {
	stored, err := o.Informer.Lister().Get(name)
	if err != nil {
		return ignoreNotFound(err)
	}
	r := stored.DeepCopy()
	switch decision := Decide(r, o.Now()); {
	case decision.Approve != "":
		return o.approve(ctx, r, decision.Approve)
	case decision.Fail != "":
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure",
			Message:        decision.Fail,
			LastUpdateTime: metav1.NewTime(o.Now()),
		})
	case decision.Sign != nil:
		if r.Status.Certificate, err = o.sign(decision.Sign); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = o.Client.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, r, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// approve approves a node's request if its user may create the given subresource.
func (o Options) approve(ctx context.Context, r *certificatesv1.CertificateSigningRequest, subresource string) error {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range r.Spec.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	review, err := o.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Subresource: subresource,
				Verb: "create", Version: "*",
			},
		},
	}, metav1.CreateOptions{})
	if err != nil || !review.Status.Allowed {
		return err
	}
	message := "Auto approving kubelet client certificate after SubjectAccessReview."
	if subresource == "selfnodeclient" {
		message = "Auto approving self kubelet client certificate after SubjectAccessReview."
	}
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved",
		Message: message,
	})
	_, err = o.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, r.Name, r,
		metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// ignoreNotFound drops NotFound and Conflict: another event of the object follows.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (o Options) sign(order *CertificateTemplate) ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("signing: certificate authority %s: %w", o.Cert, err)
	}
	authority, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("signing: certificate authority %s: %w", o.Cert, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("signing: the authority's key cannot sign")
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	req := order.Request
	c := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: req.Subject,
		DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, EmailAddresses: req.EmailAddresses, URIs: req.URIs,
		NotBefore: order.NotBefore, NotAfter: order.NotAfter, BasicConstraintsValid: true,
	}
	if c.NotAfter.After(authority.NotAfter) {
		c.NotAfter = authority.NotAfter
	}
	setUsages(c, order.Usages)
	der, err := x509.CreateCertificate(rand.Reader, c, authority, req.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func setUsages(c *x509.Certificate, list []certificatesv1.KeyUsage) {
	for _, u := range list {
		switch u {
		case certificatesv1.UsageDigitalSignature:
			c.KeyUsage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			c.KeyUsage |= x509.KeyUsageKeyEncipherment
		case certificatesv1.UsageClientAuth:
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		case certificatesv1.UsageServerAuth:
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		}
	}
}
