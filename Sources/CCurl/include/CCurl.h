#ifndef UBIQUITYFS_CCURL_H
#define UBIQUITYFS_CCURL_H

// libcurl, loaded when it is first used.
//
// The program is not linked with libcurl. Debian's build needs about thirty other libraries, and
// every command would load them at its start. Only a daemon with an S3 backend needs them.
//
// `curl_easy_setopt` and `curl_easy_getinfo` are variadic, so each type of value has a function.
// No function may be called before `ccurl_load` returned NULL. The rules for threads are
// libcurl's: a handle belongs to one thread at a time, and `ccurl_wake` may be called from any.

#include <curl/curl.h>
#include <stddef.h>

/// Loads the library once, from any thread. Returns NULL, or the reason why it cannot be loaded.
const char *ccurl_load(void);

typedef size_t (*ccurl_callback)(char *bytes, size_t size, size_t count, void *context);

/// NULL when memory is exhausted. Sockets of the handle are closed by `execve`.
void *ccurl_easy_new(void);
/// Forgets all options, and keeps TLS sessions and cached names.
void ccurl_easy_reset(void *easy);
void ccurl_easy_free(void *easy);
CURLcode ccurl_set_number(void *easy, CURLoption option, long value);
CURLcode ccurl_set_size(void *easy, CURLoption option, curl_off_t value);
/// libcurl copies the text.
CURLcode ccurl_set_text(void *easy, CURLoption option, const char *text);
CURLcode ccurl_set_pointer(void *easy, CURLoption option, void *pointer);
CURLcode ccurl_set_callback(void *easy, CURLoption option, ccurl_callback callback);
CURLcode ccurl_get_size(void *easy, CURLINFO info, curl_off_t *value);
const char *ccurl_error_text(CURLcode code);

/// NULL when memory is exhausted; the list is as before then.
struct curl_slist *ccurl_append(struct curl_slist *list, const char *text);
void ccurl_free_list(struct curl_slist *list);

/// `connections`: the number of idle connections that are kept.
void *ccurl_multi_new(long connections);
void ccurl_multi_free(void *multi);
CURLMcode ccurl_add(void *multi, void *easy);
CURLMcode ccurl_remove(void *multi, void *easy);
CURLMcode ccurl_perform(void *multi);
/// Waits for a socket, for a timer of libcurl, or for `ccurl_wake`.
CURLMcode ccurl_poll(void *multi, int milliseconds);
CURLMcode ccurl_wake(void *multi);
/// The next transfer that ended, or NULL.
void *ccurl_next_ended(void *multi, CURLcode *result);

#endif
