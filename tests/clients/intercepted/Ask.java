import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Asks for a chat by HttpClient, and prints the answer. */
class Ask {
    public static void main(String[] arguments) throws Exception {
        var chat = "{\"model\":\"m-1\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
        var request = HttpRequest.newBuilder(URI.create(arguments[0]))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(chat))
            .build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.body());
    }
}
